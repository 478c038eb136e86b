//! Hosts that do not answer any more, as the kernel's TCP sees them.
//!
//! libfabric's socket providers report a connection when the kernel gives it up, which it does a
//! quarter of an hour after the cable was pulled. The kernel knows much earlier that nothing is
//! acknowledged, and shows it to the holder of the socket (`TCP_INFO`); libfabric's sockets are those of
//! this process. So they are read, and only that; `disconnect` ends those of a host that was given
//! up.
//!
//! A connection is *stuck* while the kernel has sent something, be it a question for a window,
//! and no acknowledgement has come since it was first seen so. A peer that computes is not stuck: its
//! kernel acknowledges, or answers that it has no window. A host is silent when one of the
//! connections to it has been stuck for a given time.

use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use crate::sockets::{Ends, descriptors, ends};

/// What the kernel says of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    /// Something was sent that is not acknowledged.
    waits: bool,
    /// Since the last acknowledgement.
    answered: Duration,
}

/// The connections of this process that are stuck, and since when.
#[derive(Debug, Default)]
pub(crate) struct LinkChecks {
    stuck: HashMap<Ends, Instant>,
}

impl LinkChecks {
    /// Checks the connections to `hosts`; returns those of them that are silent for `time`.
    pub(crate) fn silent(&mut self, hosts: &[IpAddr], time: Duration) -> Vec<IpAddr> {
        let now = Instant::now();
        let seen = match connections(hosts) {
            Ok(seen) => seen,
            // What was noted stays until they can be checked again; an answer since then counts.
            Err(error) => {
                tracing::debug!("cannot check the connections to other hosts: {error}");
                return Vec::new();
            }
        };
        self.note(&seen, now);
        let old = self.stuck.iter().filter(|(_, since)| now - **since >= time);
        let mut silent: Vec<IpAddr> = old.map(|((_, remote), _)| remote.ip()).collect();
        silent.sort_unstable();
        silent.dedup();
        silent
    }

    fn note(&mut self, seen: &HashMap<Ends, Seen>, now: Instant) {
        self.stuck.retain(|ends, since| {
            let Some(seen) = seen.get(ends) else { return false };
            // An answer since then, or nothing to be answered.
            seen.waits && now.checked_sub(seen.answered).is_none_or(|answer| answer <= *since)
        });
        for (ends, _) in seen.iter().filter(|(_, seen)| seen.waits) {
            self.stuck.entry(*ends).or_insert(now);
        }
    }
}

/// The TCP connections of this process to `hosts`, by their two ends.
fn connections(hosts: &[IpAddr]) -> io::Result<HashMap<Ends, Seen>> {
    let mut found = HashMap::new();
    for number in descriptors()? {
        // SAFETY: the number was that of an open descriptor a moment ago. If it has been closed
        // since, by another thread, the questions below fail or are answered by whatever has the
        // number now; they change nothing.
        let fd = unsafe { BorrowedFd::borrow_raw(number) };
        let Some(ends) = ends(fd).filter(|(_, remote)| hosts.contains(&remote.ip())) else {
            continue;
        };
        if let Some(seen) = tcp_state(fd) {
            found.insert(ends, seen);
        }
    }
    Ok(found)
}

/// Whether it is a connection of TCP.
pub(crate) fn is_tcp(fd: BorrowedFd<'_>) -> bool {
    tcp_state(fd).is_some()
}

/// What the kernel says of a connection; nothing where it is not one of TCP.
fn tcp_state(fd: BorrowedFd<'_>) -> Option<Seen> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: `info` has space for `len` bytes; a kernel that knows less of it writes less.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    // SAFETY: all zeros is a value of the plain struct, and so is what the kernel has written.
    let info = unsafe { info.assume_init() };
    (result == 0).then(|| Seen {
        waits: info.tcpi_unacked > 0 || info.tcpi_probes > 0,
        answered: Duration::from_millis(info.tcpi_last_ack_recv.into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::{SocketAddr, TcpListener, TcpStream};

    fn pair(port: u16) -> (SocketAddr, SocketAddr) {
        (SocketAddr::from(([10, 0, 0, 1], port)), SocketAddr::from(([10, 0, 0, 2], 7)))
    }

    #[test]
    fn only_what_waits_without_an_answer_is_stuck() {
        let second = Duration::from_secs(1);
        let start = Instant::now() + 100 * second;
        let seen = |waits, answered| HashMap::from([(pair(1), Seen { waits, answered })]);
        let mut link_checks = LinkChecks::default();
        // Long silence with nothing to be answered, then a message.
        link_checks.note(&seen(false, 60 * second), start);
        assert!(link_checks.stuck.is_empty());
        link_checks.note(&seen(true, 61 * second), start + second);
        assert_eq!(
            link_checks.stuck.get(&pair(1)),
            Some(&(start + second)),
            "not the silence before"
        );
        // Still none: the time goes on from there.
        link_checks.note(&seen(true, 64 * second), start + 4 * second);
        assert_eq!(link_checks.stuck.get(&pair(1)), Some(&(start + second)));
        // An answer, and another message that waits: a new time.
        link_checks.note(&seen(true, second / 2), start + 5 * second);
        assert_eq!(link_checks.stuck.get(&pair(1)), Some(&(start + 5 * second)));
        // A connection that is gone is forgotten.
        link_checks.note(&HashMap::new(), start + 6 * second);
        assert!(link_checks.stuck.is_empty());
    }

    /// A peer that reads nothing has a full window, and its kernel still answers.
    #[test]
    fn a_peer_that_computes_is_not_silent() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut out = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut into, _) = listener.accept().unwrap();
        out.set_nonblocking(true).unwrap();
        let mut sent = 0;
        while let Ok(written) = out.write(&[1; 65536]) {
            sent += written;
        }
        let hosts = [IpAddr::from([127, 0, 0, 1])];
        let mut link_checks = LinkChecks::default();
        // Long enough for the kernel to have asked for a window a few times.
        let end = Instant::now() + Duration::from_secs(3);
        while Instant::now() < end {
            let silent = link_checks.silent(&hosts, Duration::from_secs(2));
            assert!(silent.is_empty(), "a full window is not silence");
            std::thread::sleep(Duration::from_millis(100));
        }
        let pair = (out.local_addr().unwrap(), out.peer_addr().unwrap());
        assert!(connections(&hosts).unwrap().contains_key(&pair), "the connection was checked");
        let mut read = 0;
        while read < sent {
            read += into.read(&mut [0; 65536]).unwrap();
        }
        assert_eq!(read, sent);
    }
}
