//! The system calls on sockets: what is set on them, and sending and receiving that may stop
//! short. No policy.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};

use crate::options::TcpOptions;

const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);
/// Connections that the kernel holds for us until we accept them; it lowers the number to
/// `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// A piece of memory for the kernel to read or write.
pub(crate) type Vector = libc::iovec;

fn family(of: IpAddr) -> AddressFamily {
    if of.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }
}

fn buffers(fd: &OwnedFd, options: &TcpOptions) -> rustix::io::Result<()> {
    // Before `listen` and `connect`, since the window's scale is agreed upon when connecting.
    if let Some(bytes) = options.sndbuf {
        sockopt::set_socket_send_buffer_size(fd, bytes)?;
    }
    if let Some(bytes) = options.rcvbuf {
        sockopt::set_socket_recv_buffer_size(fd, bytes)?;
    }
    Ok(())
}

/// First and last port of the setting.
pub(crate) fn ports(text: &str) -> Option<(u16, u16)> {
    let (first, last) = match text.split_once('-') {
        Some((first, last)) => (first.trim().parse().ok()?, last.trim().parse().ok()?),
        None => {
            let port = text.trim().parse().ok()?;
            (port, port)
        }
    };
    (first <= last && (first != 0 || last == 0)).then_some((first, last))
}

/// A socket that listens at `ip`, on the first free port of the range.
pub(crate) fn listen(
    ip: IpAddr,
    (first, last): (u16, u16),
    options: &TcpOptions,
) -> io::Result<(OwnedFd, SocketAddr)> {
    let mut refused = Errno::ADDRINUSE;
    for port in first..=last {
        let fd = rustix::net::socket_with(family(ip), SocketType::STREAM, FLAGS, None)?;
        buffers(&fd, options)?;
        if ip.is_ipv6() {
            sockopt::set_ipv6_v6only(&fd, true)?;
        }
        // A port that somebody else's dead connection still occupies may be used again.
        sockopt::set_socket_reuseaddr(&fd, true)?;
        match rustix::net::bind(&fd, &SocketAddr::new(ip, port))
            .and_then(|()| rustix::net::listen(&fd, BACKLOG))
        {
            Ok(()) => {
                let at = SocketAddr::try_from(rustix::net::getsockname(&fd)?)?;
                return Ok((fd, at));
            }
            Err(error) => refused = error,
        }
    }
    Err(refused.into())
}

/// A socket that has begun to connect to `to`.
pub(crate) fn connect(to: SocketAddr, options: &TcpOptions) -> rustix::io::Result<OwnedFd> {
    let fd = rustix::net::socket_with(family(to.ip()), SocketType::STREAM, FLAGS, None)?;
    buffers(&fd, options)?;
    prepare(&fd, options)?;
    match rustix::net::connect(&fd, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(fd),
        Err(error) => Err(error),
    }
}

/// Whether an attempt to connect that ended with `error` may end otherwise in a moment: networks
/// and links come up, neighbours are found late, ports and descriptors become free.
pub(crate) const fn may_pass(error: Errno) -> bool {
    matches!(
        error,
        Errno::NETUNREACH
            | Errno::HOSTUNREACH
            | Errno::NETDOWN
            | Errno::HOSTDOWN
            | Errno::TIMEDOUT
            | Errno::ADDRNOTAVAIL
            | Errno::ADDRINUSE
            | Errno::AGAIN
            | Errno::MFILE
            | Errno::NFILE
            | Errno::NOBUFS
            | Errno::NOMEM
    )
}

/// The next connection of a listener; `None` when there is none (any more).
pub(crate) fn accept(listener: &OwnedFd) -> rustix::io::Result<Option<(OwnedFd, SocketAddr)>> {
    match rustix::net::acceptfrom_with(listener, FLAGS) {
        Ok((fd, from)) => {
            let from = from.and_then(|from| SocketAddr::try_from(from).ok());
            Ok(Some((fd, from.unwrap_or_else(|| SocketAddr::from(([0; 4], 0))))))
        }
        Err(Errno::AGAIN) => Ok(None),
        // Gone before it was accepted; the next one may be there.
        Err(Errno::CONNABORTED | Errno::INTR) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What every connection has: no delay for the sake of fuller packets, and probes by the kernel,
/// so that a host that has fallen silent is noticed after the time-out, whatever its ranks do.
///
/// `TCP_USER_TIMEOUT` is not set: it ends connections whose receiver is full and alive, as that of
/// a rank which computes. [`unanswered`] distinguishes the two.
pub(crate) fn prepare(fd: &OwnedFd, options: &TcpOptions) -> rustix::io::Result<()> {
    sockopt::set_tcp_nodelay(fd, true)?;
    let timeout = options.timeout;
    // Without data on its way: probes begin after 2/5 of the time, as many as fill the rest. The
    // kernel takes whole seconds.
    let whole = timeout.as_secs().max(2);
    let (idle, interval) = ((whole * 2 / 5).max(1), (whole / 5).max(1));
    sockopt::set_socket_keepalive(fd, true)?;
    sockopt::set_tcp_keepidle(fd, Duration::from_secs(idle))?;
    sockopt::set_tcp_keepintvl(fd, Duration::from_secs(interval))?;
    sockopt::set_tcp_keepcnt(fd, ((whole - idle) / interval).clamp(1, 127) as u32)?;
    limit_pauses(fd, timeout / 5);
    Ok(())
}

/// Keeps the pauses between the kernel's attempts to reach a silent host short (Linux 6.15 and
/// later; before, they grow to two minutes, and a death behind a full receiver is noticed so much
/// later).
fn limit_pauses(fd: &OwnedFd, longest: Duration) {
    /// See tcp(7).
    const TCP_RTO_MAX_MS: libc::c_int = 44;
    let millis = longest.as_millis().clamp(1000, 120_000) as libc::c_int;
    // SAFETY: the option takes an int, which is where the pointer leads. A kernel that does not
    // know it says so, and nothing follows from that.
    unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            TCP_RTO_MAX_MS,
            (&raw const millis).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        );
    }
}

/// How long ago the peer's kernel was last heard, if ours has asked it again without an answer;
/// `None` while nothing is open between the two. An idle connection is not checked: the kernel's
/// keep-alive ends it by itself.
pub(crate) fn unanswered(fd: BorrowedFd<'_>) -> Option<Duration> {
    // SAFETY: the structure consists of integers, for which zeros are values.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes of the structure.
    let result = unsafe {
        let to = (&raw mut info).cast();
        libc::getsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, to, &raw mut len)
    };
    let asked = info.tcpi_retransmits > 0 || info.tcpi_probes > 0;
    (result == 0 && asked).then(|| Duration::from_millis(u64::from(info.tcpi_last_ack_recv)))
}

/// Whether a socket that began to connect has arrived, is still on its way (`None`), or failed.
pub(crate) fn connected(fd: &OwnedFd) -> Option<Result<(), Errno>> {
    match sockopt::socket_error(fd) {
        Ok(Err(error)) | Err(error) => return Some(Err(error)),
        Ok(Ok(())) => {}
    }
    match rustix::net::getpeername(fd) {
        Ok(_) => Some(Ok(())),
        Err(Errno::NOTCONN) => None,
        Err(error) => Some(Err(error)),
    }
}

/// Sends bytes; fewer than given where the kernel has less space.
#[inline]
pub(crate) fn send(fd: BorrowedFd<'_>, bytes: &[u8]) -> rustix::io::Result<usize> {
    rustix::net::send(fd, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
}

/// Receives at most `len` bytes to `at`.
///
/// # Safety
/// `at` must be writable for `len` bytes.
#[inline]
pub(crate) unsafe fn receive(
    fd: BorrowedFd<'_>,
    at: *mut u8,
    len: usize,
) -> rustix::io::Result<usize> {
    // SAFETY: writable by the caller's promise; uninitialised bytes may be handed to the call,
    // and no other reference to them is used meanwhile.
    let space =
        unsafe { std::slice::from_raw_parts_mut(at.cast::<std::mem::MaybeUninit<u8>>(), len) };
    rustix::net::recv(fd, space, RecvFlags::DONTWAIT).map(|(_, received)| received)
}

/// Sends from several pieces.
///
/// # Safety
/// Each piece must be readable for its length.
pub(crate) unsafe fn send_pieces(
    fd: BorrowedFd<'_>,
    pieces: &[Vector],
) -> rustix::io::Result<usize> {
    // SAFETY: a message header of zeros is an empty one; the fields are set below.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = pieces.as_ptr().cast_mut();
    message.msg_iovlen = pieces.len() as _;
    // SAFETY: `message` leads to `pieces`, which are readable by the caller's promise; the call
    // writes none of them.
    let sent = unsafe {
        libc::sendmsg(fd.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
    };
    outcome(sent)
}

/// Receives to several pieces.
///
/// # Safety
/// Each piece must be writable for its length.
pub(crate) unsafe fn receive_pieces(
    fd: BorrowedFd<'_>,
    pieces: &[Vector],
) -> rustix::io::Result<usize> {
    // SAFETY: as in `send_pieces`.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = pieces.as_ptr().cast_mut();
    message.msg_iovlen = pieces.len() as _;
    // SAFETY: `message` leads to `pieces`, which are writable by the caller's promise.
    let received = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
    outcome(received)
}

fn outcome(moved: isize) -> rustix::io::Result<usize> {
    usize::try_from(moved)
        .map_err(|_| Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
}

/// Whether both ends of a connection have one address, so that it never leaves the host.
fn same_host(fd: BorrowedFd<'_>) -> bool {
    let ip = |address: Option<rustix::net::SocketAddrAny>| {
        address.and_then(|address| SocketAddr::try_from(address).ok()).map(|address| address.ip())
    };
    let local = ip(rustix::net::getsockname(fd).ok());
    let remote = ip(rustix::net::getpeername(fd).ok().flatten());
    local.is_some() && local == remote
}

/// Sets what depends on where the other end is; `near` if it is known to be on this machine, be it
/// in another network namespace.
///
/// On one machine there is no network to share, and nothing that an algorithm could learn of it:
/// those that send at the pace of an estimate (bbr) let bytes wait for a timer. Reno, which every
/// kernel has, sends them at once. And bytes go from cache to cache as long as few are on their
/// way; the kernel's own choice lets megabytes pile up, and the copies then miss the cache.
///
/// Measured on a machine with two processors whose kernel prefers bbr, messages of 1 MB, in GB/s,
/// by the send buffer in KiB (the kernel doubles it):
///
/// | | 64 | 128 | 192 | 256 | 512 | 2048 |
/// |---|---|---|---|---|---|---|
/// | loopback, bbr | 4.3 | 6.6 | 6.9 | 7.2 | 7.2 | 6.8 to 7.4 |
/// | between two network namespaces, bbr | 5.9 | 6.9 | 3.7 | 3.4 | 2.4 | 1.8 |
/// | between two network namespaces, reno | | 7.0 | | 6.9 | 7.0 | 6.8 |
///
/// A message of 64 KiB between two namespaces takes 22 us with reno and 37 to 53 with bbr.
///
/// A network between two namespaces can have delay, and then a short buffer leaves the network empty until the
/// acknowledgements are back. There the kernel chooses the buffer. With 150 us of delay each way, 1 MB in
/// windows of 8 takes 430 to 510 us with reno and a buffer of the kernel's choice, 760 to 850 with 256 KiB, and
/// 750 to 950 with bbr.
pub(crate) fn tune(fd: BorrowedFd<'_>, options: &TcpOptions, near: bool) {
    const PACED: usize = 128 << 10;
    const UNPACED: usize = 256 << 10;
    /// Round trip from which on there is a network with delay. On one machine the kernel answers in 10 to 50 us.
    const DELAY: Duration = Duration::from_micros(150);
    if !near && !same_host(fd) {
        return;
    }
    let mut bytes = UNPACED;
    // An administrator may have forbidden it.
    if let Err(error) = sockopt::set_tcp_congestion(fd, "reno") {
        tracing::debug!(%error, "cannot choose how a connection is controlled");
        bytes = PACED;
    }
    let delay = round_trip(fd).is_some_and(|time| time >= DELAY);
    if options.sndbuf.is_none()
        && !delay
        && let Err(error) = sockopt::set_socket_send_buffer_size(fd, bytes)
    {
        tracing::debug!(%error, "cannot set a send buffer");
    }
}

/// The shortest time between a packet and its acknowledgement that the kernel has measured, be it of the handshake
/// alone; `None` where it says nothing.
fn round_trip(fd: BorrowedFd<'_>) -> Option<Duration> {
    /// Linux' `tcp_info` as far as it is of use here; older kernels write less of it.
    #[repr(C)]
    struct Info {
        front: [u32; 37],
        /// In microseconds; all ones while nothing was measured.
        min_rtt: u32,
    }
    let mut info = Info { front: [0; 37], min_rtt: u32::MAX };
    let mut len = size_of::<Info>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, for which there is space, and any bytes make an `Info`.
    let result = unsafe {
        let (level, name) = (libc::IPPROTO_TCP, libc::TCP_INFO);
        libc::getsockopt(fd.as_raw_fd(), level, name, (&raw mut info).cast(), &raw mut len)
    };
    let known = result == 0 && info.min_rtt != u32::MAX;
    known.then(|| Duration::from_micros(info.min_rtt.into()))
}

/// Bytes that would be lost if the connection were cut now. To another host these are the ones
/// that its kernel has not acknowledged; on this host, what has been sent has arrived.
pub(crate) fn at_risk(fd: BorrowedFd<'_>) -> usize {
    /// Bytes not sent yet; see tcp(7).
    const SIOCOUTQNSD: libc::c_ulong = 0x894b;
    let here = same_host(fd);
    let request = if here { SIOCOUTQNSD } else { libc::TIOCOUTQ };
    let mut bytes: libc::c_int = 0;
    // SAFETY: both requests write one int, for which there is space.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), request, &raw mut bytes) };
    if result == 0 { usize::try_from(bytes).unwrap_or(0) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_ranges() {
        assert_eq!(ports("0"), Some((0, 0)));
        assert_eq!(ports("80"), Some((80, 80)));
        assert_eq!(ports(" 20000 - 20010 "), Some((20000, 20010)));
        for bad in ["", "x", "5-4", "0-5", "70000", "1-2-3"] {
            assert_eq!(ports(bad), None, "{bad}");
        }
    }
}
