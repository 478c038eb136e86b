//! Descriptors through abstract sockets, between processes of one user that may be in different pid
//! namespaces. Nobody waits for longer than [`PATIENCE`] in one step.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

/// The time that the other side has for one step: far longer than a process of an overloaded machine
/// needs to run once.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Between two attempts for which there was no space.
pub(super) const PAUSE: Duration = Duration::from_millis(20);

/// A socket that others connect to, which does not block.
#[derive(Debug)]
pub(super) struct Listener(OwnedFd);

impl Listener {
    pub(super) fn bind(name: &str) -> rustix::io::Result<Self> {
        let socket = stream_socket()?;
        rustix::net::bind(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
        rustix::net::listen(&socket, 128)?;
        rustix::io::ioctl_fionbio(&socket, true)?;
        Ok(Self(socket))
    }

    /// Somebody of this user who has connected, if there is one.
    pub(super) fn accept(&self) -> rustix::io::Result<Option<OwnedFd>> {
        let peer = match rustix::net::accept_with(&self.0, SocketFlags::CLOEXEC) {
            Ok(peer) => peer,
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return Ok(None),
            Err(error) => return Err(error),
        };
        limit(&peer)?;
        match user_of(&peer)? == rustix::process::geteuid().as_raw() {
            true => Ok(Some(peer)),
            // Closing without an answer is the answer.
            false => Err(Errno::ACCESS),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Connects to a [`Listener`] of this user; the reason where that cannot be.
pub(super) fn connect(name: &str) -> Result<OwnedFd, String> {
    let text = |error: Errno| error.to_string();
    let socket = stream_socket().map_err(text)?;
    // Before it connects: a listener whose queue is full makes this side wait.
    limit(&socket).map_err(text)?;
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).map_err(text)?;
    rustix::net::connect(&socket, &address).map_err(|error| match error {
        Errno::AGAIN => format!("it took no connection for {PATIENCE:?}"),
        error => format!(
            "{error}: the rank that listens there runs in another network namespace or died"
        ),
    })?;
    match user_of(&socket).map_err(text)? == rustix::process::geteuid().as_raw() {
        true => Ok(socket),
        false => Err("the socket belongs to another user".into()),
    }
}

/// Sends a number and a descriptor.
pub(super) fn send(peer: &OwnedFd, word: u64, fd: BorrowedFd<'_>) -> rustix::io::Result<()> {
    let fds = [fd];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fits = control.push(SendAncillaryMessage::ScmRights(&fds));
    debug_assert!(fits, "the space is made for one descriptor");
    let word = word.to_ne_bytes();
    rustix::net::sendmsg(peer, &[IoSlice::new(&word)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives what [`send`] sends; the reason where nothing of it came.
pub(super) fn receive(socket: &OwnedFd) -> Result<(u64, OwnedFd), String> {
    let mut word = [0; 8];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let iov = &mut [IoSliceMut::new(&mut word)];
        match rustix::net::recvmsg(socket, iov, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Err(format!("nothing came for {PATIENCE:?}")),
            other => break other.map_err(|error| error.to_string())?,
        }
    };
    let fd = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    match fd {
        Some(fd) if received.bytes == word.len() => Ok((u64::from_ne_bytes(word), fd)),
        // The kernel leaves out a descriptor for which this process has no number.
        None if received.bytes == word.len() => {
            Err("its descriptor was lost; is the limit of open files (ulimit -n) reached?".into())
        }
        _ => Err("it sent no descriptor".into()),
    }
}

fn stream_socket() -> rustix::io::Result<OwnedFd> {
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
}

fn limit(socket: &OwnedFd) -> rustix::io::Result<()> {
    set_socket_timeout(socket, Timeout::Recv, Some(PATIENCE))?;
    set_socket_timeout(socket, Timeout::Send, Some(PATIENCE))
}

/// The user at the other end. Not by `rustix`, for which a process has a number: one of another pid
/// namespace has 0 here.
fn user_of(socket: &OwnedFd) -> rustix::io::Result<u32> {
    let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the option writes at most `len` bytes, which is the size of `found`, a structure of
    // integers; the descriptor is open.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &raw mut len,
        )
    };
    match outcome == 0 && len as usize == size_of::<libc::ucred>() {
        true => Ok(found.uid),
        false => {
            Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL))
        }
    }
}
