//! Handing the node's memory to ranks that did not inherit it.
//!
//! Three routes to the descriptor, tried in this order:
//!
//! 1. open `/proc/PID/fd/N`: same user, same pid namespace; the maker need not take part;
//! 2. `pidfd_getfd`: needs the right to trace the maker, which containers and Yama often refuse;
//! 3. an abstract socket and `SCM_RIGHTS`: same network namespace; a thread of the maker serves
//!    it while the ranks start, and both sides check the other's user id.
//!
//! Whichever it was, the memory is only used if its seals, its layout and its node id are those
//! that were offered.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::thread::JoinHandle;

use bowline_base::job::{JobMemory, pid_namespace, start_time_of};
use rustix::event::{EventfdFlags, PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags};

use super::passing::{self, Listener};
use super::{BootError, memory_fd};

/// How to take a descriptor from another process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Route {
    /// The first that works.
    #[default]
    Any,
    /// `/proc/PID/fd` only.
    Proc,
    /// `pidfd_getfd` only.
    Pidfd,
    /// The abstract socket only.
    Socket,
}

/// Where a node's memory is to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    pid: u32,
    start_time: u64,
    /// 0 where it is not known.
    pid_namespace: u64,
    fd: u32,
    node_id: u64,
}

impl Offer {
    /// The offer of this process, which made `job`.
    pub(super) fn of(job: &JobMemory) -> Result<Self, BootError> {
        let pid = std::process::id();
        let start_time = start_time_of(pid)
            .map_err(|source| BootError::System { act: "read the start time", source })?;
        let fd = memory_fd(job).as_raw_fd().unsigned_abs();
        let pid_namespace = pid_namespace().unwrap_or(0);
        Ok(Self { pid, start_time, pid_namespace, fd, node_id: job.node_id() })
    }

    pub(super) fn to_bytes(self) -> Vec<u8> {
        let Self { pid, start_time, pid_namespace, fd, node_id } = self;
        format!("{pid} {start_time} {pid_namespace} {fd} {node_id}").into_bytes()
    }

    /// The pid namespace of the maker, as its published bytes say.
    pub(super) fn namespace_in(bytes: &[u8]) -> Option<u64> {
        Self::parse(bytes).map(|offer| offer.pid_namespace).filter(|&namespace| namespace != 0)
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(bytes).ok()?.split(' ');
        let offer = Self {
            pid: words.next()?.parse().ok()?,
            start_time: words.next()?.parse().ok()?,
            pid_namespace: words.next()?.parse().ok()?,
            fd: words.next()?.parse().ok()?,
            node_id: words.next()?.parse().ok()?,
        };
        words.next().is_none().then_some(offer)
    }

    /// The maker's pid as this process may use it, or why it may not.
    fn usable_pid(&self) -> Result<Pid, String> {
        match pid_namespace() {
            Some(own) if own == self.pid_namespace => {}
            Some(_) => return Err("it runs in another pid namespace".into()),
            None => return Err("/proc is that of another pid namespace".into()),
        }
        match start_time_of(self.pid) {
            Ok(start) if start == self.start_time => {}
            Ok(_) => return Err(format!("process {} is another one by now", self.pid)),
            Err(error) => return Err(format!("process {}: {error}", self.pid)),
        }
        i32::try_from(self.pid).ok().and_then(Pid::from_raw).ok_or_else(|| "no such pid".into())
    }
}

#[cfg(any(test, fuzzing))]
pub(super) fn take_any(bytes: &[u8]) {
    if let Some(offer) = Offer::parse(bytes) {
        assert_eq!(Offer::parse(&offer.to_bytes()), Some(offer));
    }
}

/// Takes the memory that `offer`, the published bytes of rank `leader`, speaks of.
pub(super) fn take(offer: &[u8], leader: u32, route: Route) -> Result<JobMemory, BootError> {
    let parsed = Offer::parse(offer)
        .ok_or_else(|| BootError::NoRoute { leader, reasons: "its offer is damaged".into() })?;
    type Open = fn(&Offer) -> Result<OwnedFd, String>;
    let routes: [(Route, &str, Open); 3] = [
        (Route::Proc, "/proc", by_proc),
        (Route::Pidfd, "pidfd_getfd", by_pidfd),
        (Route::Socket, "socket", by_socket),
    ];
    let mut reasons = Vec::new();
    for (this, name, open) in routes {
        if route != Route::Any && route != this {
            continue;
        }
        let opened = open(&parsed).and_then(|fd| {
            let job = JobMemory::open(fd).map_err(|error| error.to_string())?;
            match job.node_id() == parsed.node_id {
                true => Ok(job),
                false => Err("it holds the memory of another job".into()),
            }
        });
        match opened {
            Ok(job) => return Ok(job),
            Err(reason) => reasons.push(format!("{name}: {reason}")),
        }
    }
    Err(BootError::NoRoute { leader, reasons: reasons.join("; ") })
}

fn by_proc(offer: &Offer) -> Result<OwnedFd, String> {
    offer.usable_pid()?;
    let path = format!("/proc/{}/fd/{}", offer.pid, offer.fd);
    rustix::fs::open(&path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| format!("{path}: {error}"))
}

fn by_pidfd(offer: &Offer) -> Result<OwnedFd, String> {
    let pid = offer.usable_pid()?;
    let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty())
        .map_err(|error| format!("process {}: {error}", offer.pid))?;
    // Again, now that the number cannot change its meaning under the descriptor.
    offer.usable_pid()?;
    let fd = i32::try_from(offer.fd).map_err(|_| "no such descriptor")?;
    rustix::process::pidfd_getfd(pidfd, fd, PidfdGetfdFlags::empty())
        .map_err(|error| format!("descriptor {fd} of process {}: {error}", offer.pid))
}

fn by_socket(offer: &Offer) -> Result<OwnedFd, String> {
    let socket = passing::connect(&name(offer.node_id))?;
    let (_, fd) = passing::receive(&socket)
        .map_err(|error| format!("{error}; it runs as another user, is stopped, or has ended"))?;
    Ok(fd)
}

/// The maker's thread that serves the third route until dropped.
#[derive(Debug)]
pub(super) struct Giver {
    thread: Option<JoinHandle<()>>,
    stop: OwnedFd,
}

impl Giver {
    pub(super) fn start(job: &JobMemory) -> Result<Self, BootError> {
        let failed = |act| move |e: Errno| BootError::System { act, source: e.into() };
        let socket = Listener::bind(&name(job.node_id()))
            .map_err(failed("make a socket for the node's memory"))?;
        let stop = rustix::event::eventfd(0, EventfdFlags::CLOEXEC)
            .map_err(failed("make an event counter"))?;
        let stopped = rustix::io::dup(&stop).map_err(failed("duplicate a descriptor"))?;
        let job = job.clone();
        let thread = std::thread::Builder::new()
            .name("bowline-giver".into())
            .spawn(move || serve(&job, &socket, &stopped))
            .map_err(|source| BootError::System { act: "start a thread", source })?;
        Ok(Self { thread: Some(thread), stop })
    }
}

impl Drop for Giver {
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::warn!("the thread that hands out the node's memory has panicked");
        }
    }
}

fn serve(job: &JobMemory, socket: &Listener, stop: &OwnedFd) {
    loop {
        let mut fds = [
            PollFd::new(stop, PollFlags::IN),
            PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN),
        ];
        if poll(&mut fds, None).is_err() {
            continue;
        }
        if !fds[0].revents().is_empty() {
            return;
        }
        let given = socket.accept().and_then(|peer| {
            peer.map_or(Ok(()), |peer| passing::send(&peer, job.node_id(), memory_fd(job)))
        });
        match given {
            Ok(()) => {}
            // It may have space later, and this wait has a time limit.
            Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS)) => {
                tracing::warn!(%error, "cannot serve the node's memory by its socket now");
                std::thread::sleep(passing::PAUSE);
            }
            Err(error) => tracing::warn!(%error, "cannot hand the node's memory to a rank"),
        }
    }
}

fn name(node_id: u64) -> String {
    format!("bowline-node-{node_id:016x}")
}

/// Names this host: two ranks with the same bytes run on one kernel.
pub(super) fn host() -> Result<Vec<u8>, BootError> {
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id")
        .map_err(|source| BootError::System { act: "read the boot id of this host", source })?;
    let name = rustix::system::uname().nodename().to_bytes().to_vec();
    Ok([name, boot.trim_ascii().to_vec()].join(&b'/'))
}

#[cfg(test)]
mod tests;
