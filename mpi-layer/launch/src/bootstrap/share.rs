//! Handing the node's memory to ranks that did not inherit it.
//!
//! Three routes to the descriptor, tried in this order:
//!
//! 1. open `/proc/PID/fd/N`: same user, same pid namespace; the maker need not take part;
//! 2. `pidfd_getfd`: needs the right to trace the maker, which containers and Yama often refuse;
//! 3. an abstract socket and `SCM_RIGHTS`: same network namespace; a thread of the maker serves
//!    it while the ranks start, and both sides look at the other's user id.
//!
//! Whichever it was, the memory is only used if its seals, its layout and its node id are those
//! that were offered.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::thread::JoinHandle;

use bowline_base::job::{JobMemory, start_time_of};
use rustix::event::{EventfdFlags, PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt,
};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags};

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
        Ok(Self { pid, start_time, pid_namespace: pid_namespace()?, fd, node_id: job.node_id() })
    }

    pub(super) fn to_bytes(self) -> Vec<u8> {
        let Self { pid, start_time, pid_namespace, fd, node_id } = self;
        format!("{pid} {start_time} {pid_namespace} {fd} {node_id}").into_bytes()
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
            Ok(own) if own == self.pid_namespace => {}
            Ok(_) => return Err("it runs in another pid namespace".into()),
            Err(error) => return Err(error.to_string()),
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
    let text = |error: Errno| error.to_string();
    let socket = stream_socket().map_err(text)?;
    rustix::net::connect(&socket, &socket_name(offer.node_id).map_err(text)?).map_err(|error| {
        format!("{error}: the rank that made the memory runs in another network namespace or died")
    })?;
    let peer = sockopt::socket_peercred(&socket).map_err(text)?;
    if peer.uid != rustix::process::geteuid() {
        return Err("the socket belongs to another user".into());
    }
    let mut word = [0; 8];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let iov = &mut [IoSliceMut::new(&mut word)];
        match rustix::net::recvmsg(&socket, iov, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            other => break other.map_err(text)?,
        }
    };
    let fd = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    match fd {
        Some(fd) if received.bytes == word.len() => Ok(fd),
        _ => Err("it sent no descriptor: it runs as another user or has ended".into()),
    }
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
        let socket = stream_socket().map_err(failed("make a socket for the node's memory"))?;
        let name = socket_name(job.node_id()).map_err(failed("name a socket"))?;
        rustix::net::bind(&socket, &name).map_err(failed("name a socket"))?;
        rustix::net::listen(&socket, 128).map_err(failed("listen on a socket"))?;
        rustix::io::ioctl_fionbio(&socket, true).map_err(failed("make a socket not block"))?;
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

fn serve(job: &JobMemory, socket: &OwnedFd, stop: &OwnedFd) {
    loop {
        let mut fds = [PollFd::new(stop, PollFlags::IN), PollFd::new(socket, PollFlags::IN)];
        if poll(&mut fds, None).is_err() {
            continue;
        }
        if !fds[0].revents().is_empty() {
            return;
        }
        match rustix::net::accept_with(socket, SocketFlags::CLOEXEC) {
            Ok(peer) => {
                if let Err(error) = give(job, &peer) {
                    tracing::warn!(%error, "cannot hand the node's memory to a rank");
                }
            }
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot serve the node's memory by its socket");
                return;
            }
        }
    }
}

fn give(job: &JobMemory, peer: &OwnedFd) -> rustix::io::Result<()> {
    if sockopt::socket_peercred(peer)?.uid != rustix::process::geteuid() {
        // Closing without an answer is the answer.
        return Err(Errno::ACCESS);
    }
    let fds = [memory_fd(job)];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fits = control.push(SendAncillaryMessage::ScmRights(&fds));
    debug_assert!(fits, "the space is made for one descriptor");
    let word = job.node_id().to_ne_bytes();
    rustix::net::sendmsg(peer, &[IoSlice::new(&word)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

fn stream_socket() -> rustix::io::Result<OwnedFd> {
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
}

fn socket_name(node_id: u64) -> rustix::io::Result<SocketAddrUnix> {
    SocketAddrUnix::new_abstract_name(format!("bowline-node-{node_id:016x}").as_bytes())
}

/// The pid namespace of this process: numbers of processes mean something within it only.
fn pid_namespace() -> Result<u64, BootError> {
    let stat = rustix::fs::stat("/proc/self/ns/pid")
        .map_err(|e| BootError::System { act: "ask for the pid namespace", source: e.into() })?;
    Ok(stat.st_ino)
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
