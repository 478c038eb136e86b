//! Ends the connections to a peer that failed and may still live.
//!
//! libfabric has no call that takes an operation back from a peer: `fi_cancel` withdraws receives
//! only, and removing an address leaves its connection open unless an environment variable says
//! otherwise. A connection that stays open finishes what was under way on it, however late: a read
//! into the user's memory, a peer's write to memory that was exposed. The kernel can end it. libfabric
//! then answers all operations of the connection with an error and closes its socket, and after that
//! nothing of the peer is written or read.
//!
//! **Which sockets.** Those of this process with one of these pairs of ends:
//! - *direct*: the other end is the address at which the peer listens. Nobody else uses it.
//! - *accepted*: this end is our own listening address and the other one has the peer's IP address.
//!   libfabric does not say which process of that host it is, so one of these may belong to another
//!   peer there. `failure` says when they are cut.
//!
//! A descriptor is duplicated before it is examined: the duplicate names the same socket until it is
//! closed here, although libfabric may close its own and another thread may be given the number.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::net::{Shutdown, getsockname};

use crate::link_check;
use crate::sockets::{Ends, descriptors, ends};

/// Which connections of this process lead to a peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Which {
    /// Where the peer listens.
    pub(crate) peer: SocketAddr,
    /// Where we listen.
    pub(crate) own: SocketAddr,
    /// The accepted ones of the peer's host, too.
    pub(crate) accepted: bool,
}

fn same(a: SocketAddr, b: SocketAddr) -> bool {
    (a.ip(), a.port()) == (b.ip(), b.port())
}

impl Which {
    fn matches(&self, (local, remote): Ends) -> bool {
        let own = |ip: IpAddr| self.own.ip().is_unspecified() || self.own.ip() == ip;
        let accepted = local.port() == self.own.port() && own(local.ip());
        same(remote, self.peer) || self.accepted && accepted && remote.ip() == self.peer.ip()
    }

    /// Ends these connections and adds their ends to `cut`.
    ///
    /// # Errors
    /// When there is no descriptor left to examine one of them.
    pub(crate) fn cut(&self, cut: &mut Vec<Ends>) -> io::Result<()> {
        for number in descriptors()? {
            // SAFETY: the number was that of an open descriptor a moment ago. If it has been closed
            // since, the calls fail or concern whatever has the number now, which is examined
            // again below.
            let fd = unsafe { BorrowedFd::borrow_raw(number) };
            // Only a connection of the peer's is duplicated: a duplicate of a file would, when it is
            // closed, end all locks that the program has on that file (fcntl(2)).
            if !ends(fd).is_some_and(|ends| self.matches(ends)) {
                continue;
            }
            let own = match rustix::io::fcntl_dupfd_cloexec(fd, 0) {
                Ok(own) => own,
                Err(rustix::io::Errno::BADF) => continue,
                Err(error) => return Err(error.into()),
            };
            let Some(ends) = ends(own.as_fd()).filter(|ends| self.matches(*ends)) else { continue };
            if !link_check::is_tcp(own.as_fd()) {
                continue;
            }
            // One that has ended meanwhile needs no end.
            let _ = rustix::net::shutdown(&own, Shutdown::Both);
            if !cut.contains(&ends) {
                cut.push(ends);
            }
        }
        Ok(())
    }
}

/// Whether libfabric still holds one of these connections, or may: where it cannot be checked it does.
pub(crate) fn any_open(cut: &[Ends]) -> bool {
    if cut.is_empty() {
        return false;
    }
    let Ok(mut all) = descriptors() else { return true };
    all.any(|number| {
        // SAFETY: as in `cut`; the questions change nothing.
        let fd = unsafe { BorrowedFd::borrow_raw(number) };
        // A socket that was cut may have no other end any more, as the listener never had one.
        let local = getsockname(fd).ok().and_then(|local| SocketAddr::try_from(local).ok());
        let known = local.is_some_and(|local| cut.iter().any(|(ours, _)| *ours == local));
        let listens = || rustix::net::sockopt::socket_acceptconn(fd) == Ok(true);
        known && ends(fd).map_or_else(|| !listens(), |ends| cut.contains(&ends))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    use std::io::Read as _;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn the_connections_of_a_peer_are_cut_and_no_others() {
        let (ours, theirs) =
            (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        let third = TcpListener::bind("127.0.0.1:0").unwrap();
        let (own, peer) = (ours.local_addr().unwrap(), theirs.local_addr().unwrap());
        // One that we made, one that came from the peer's host, and one to somebody else there.
        let made = TcpStream::connect(peer).unwrap();
        let came = TcpStream::connect(own).unwrap();
        let (accepted, _) = ours.accept().unwrap();
        let other = TcpStream::connect(third.local_addr().unwrap()).unwrap();
        let (mut at_third, _) = third.accept().unwrap();
        let which = |accepted| Which { peer, own, accepted };
        let mut cut = Vec::new();
        which(false).cut(&mut cut).unwrap();
        assert_eq!(cut, [(made.local_addr().unwrap(), peer)]);
        let mut byte = [0];
        assert_eq!((&made).read(&mut byte).unwrap(), 0, "it was cut");
        assert!(any_open(&cut), "its descriptor is still there");
        drop(made);
        drop(theirs);
        assert!(!any_open(&cut));
        which(true).cut(&mut cut).unwrap();
        assert!(cut.contains(&(own, came.local_addr().unwrap())));
        assert_eq!((&accepted).read(&mut byte).unwrap(), 0, "it was cut");
        assert!(any_open(&cut));
        drop((came, accepted));
        assert!(!any_open(&cut), "the listener is no connection");
        drop(other);
        assert_eq!(at_third.read(&mut byte).unwrap(), 0, "only because its own end went");
    }

    /// A process without descriptors cannot list them, and takes no connection for one that has ended.
    #[test]
    fn what_cannot_be_looked_at_may_be_open() {
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "disconnect::tests::role_starved", "--ignored", "--nocapture"])
            .status()
            .unwrap();
        assert!(status.success(), "{status}");
    }

    #[test]
    #[ignore = "started by the test, since it lowers the limit of its process"]
    fn role_starved() {
        let ours = TcpListener::bind("127.0.0.1:0").unwrap();
        let theirs = TcpListener::bind("127.0.0.1:0").unwrap();
        let (own, peer) = (ours.local_addr().unwrap(), theirs.local_addr().unwrap());
        let made = TcpStream::connect(peer).unwrap();
        let which = Which { peer, own, accepted: false };
        let before = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..before }).unwrap();
        let mut cut = Vec::new();
        let error = which.cut(&mut cut).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EMFILE));
        setrlimit(Resource::Nofile, before).unwrap();
        which.cut(&mut cut).unwrap();
        assert!(any_open(&cut));
        drop(made);
        setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..before }).unwrap();
        assert!(any_open(&cut), "it could not be checked");
        setrlimit(Resource::Nofile, before).unwrap();
        assert!(!any_open(&cut));
    }
}
