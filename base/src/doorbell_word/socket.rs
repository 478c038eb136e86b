//! The sockets by which the owners of a job's doorbells are woken from a sleep on a descriptor.
//!
//! Each owner has a datagram socket under an abstract name made of node memory, rank and instance, so
//! that no descriptor per peer is needed and no name is left in a file system. One socket of each
//! process sends to all of them.
//!
//! Rules.
//! 1. Abstract names have no permissions, and `/proc/net/unix` lists them: every process of the
//!    network namespace can send to them, whatever its user. So a wake carries a number that is
//!    random for each node memory and stands nowhere but in it, and the owner's socket has a filter by
//!    which the kernel drops every datagram without it, before it is queued. Such datagrams wake
//!    nobody and take no memory.
//! 2. The sending socket is made when the first doorbell of a job is opened, since a process may be
//!    out of descriptors when it has to wake a peer. Only success is remembered.
//! 3. A signal handler may ring. So a wake allocates nothing and logs nothing, and waits for nobody: what the system has
//!    refused is logged by the process's next poll for deaths ([`report_refusal`]).

use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, BorrowedFd, IntoRawFd as _, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};

use crate::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// The socket of this process that sends to everybody, as the system numbers it, once it is made; it is never closed.
static SENDER: AtomicI32 = AtomicI32::new(NONE);

/// No descriptor.
const NONE: i32 = -1;

/// What has kept this process from waking a peer, as the system numbers errors; nothing if zero.
static REFUSAL: AtomicI32 = AtomicI32::new(0);

/// Whether this process has logged that it cannot wake peers: it would do so for each message otherwise.
static REPORTED: AtomicBool = AtomicBool::new(false);

/// Makes what [`WakeSocket::wake`] needs, as far as that is possible now.
pub(crate) fn prepare_to_wake() {
    if let Err(error) = made_in(&SENDER) {
        tracing::debug!(%error, "no socket to wake peers yet; it is asked for again when one is needed");
    }
}

/// The socket in `place`, made if it is not there. Waits for nobody: of two that make it at once one closes its own.
fn made_in(place: &'static AtomicI32) -> Result<BorrowedFd<'static>, Errno> {
    // Acquire: pairs with the exchange below.
    let mut known = place.load(Ordering::Acquire);
    if known == NONE {
        let made = datagram_socket()?;
        // AcqRel: the socket is there for who finds its number.
        let before =
            place.compare_exchange(NONE, made.as_raw_fd(), Ordering::AcqRel, Ordering::Acquire);
        known = match before {
            Ok(_) => made.into_raw_fd(),
            Err(other) => other,
        };
    }
    // SAFETY: the descriptor in `place` was made above, by this call or another, and nobody closes it.
    Ok(unsafe { BorrowedFd::borrow_raw(known) })
}

/// The socket on which a rank that has attached to its job may sleep: its name, and what a wake carries.
#[derive(Debug)]
pub(crate) struct WakeSocket {
    name: SocketAddrUnix,
    token: [u8; 8],
}

impl WakeSocket {
    /// That of an instance of a local rank. The node id is random, so nobody else takes the name by
    /// accident; `token` is the node memory's (rule 1).
    pub(crate) fn of(node_id: u64, (local, instance): (u32, u64), token: u64) -> Option<Self> {
        // Rule 3: no memory is allocated for the name.
        let mut name = io::Cursor::new([0; 80]);
        write!(name, "bowline-doorbell-{node_id:016x}-{local}-{instance:016x}").ok()?;
        let len = name.position() as usize;
        let name = SocketAddrUnix::new_abstract_name(&name.get_ref()[..len]).ok()?;
        Some(Self { name, token: token.to_ne_bytes() })
    }

    /// Wakes the rank. Whether nothing is left to do: not when the system has refused, which it may
    /// grant the next time.
    pub(crate) fn wake(&self) -> bool {
        let sender = match made_in(&SENDER) {
            Ok(sender) => sender,
            Err(error) => {
                note_refusal(error);
                return false;
            }
        };
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match rustix::net::sendto(sender, &self.token, flags, &self.name) {
            // A full socket is readable already. A missing one belongs to a rank that has ended, or
            // that sits in another network namespace, which connecting has refused.
            Ok(_) | Err(Errno::AGAIN | Errno::CONNREFUSED) => true,
            Err(error) => {
                note_refusal(error);
                false
            }
        }
    }

    /// Opens it, for its owner.
    pub(crate) fn open(&self) -> io::Result<OwnedFd> {
        let socket = datagram_socket()?;
        // Before it has a name: nobody can have sent anything yet.
        if let Err(error) = admit_only(&socket, self.token) {
            tracing::warn!(
                %error,
                "this system has no socket filters: other users of the machine can end a rank's sleeps"
            );
        }
        rustix::net::bind(&socket, &self.name)?;
        Ok(socket)
    }
}

/// Keeps what has been refused for who logs it.
pub(crate) fn note_refusal(error: Errno) {
    // Relaxed: a value that publishes nothing.
    REFUSAL.store(error.raw_os_error(), Ordering::Relaxed);
}

/// Logs once for the process that it could not wake a peer. Not for signal handlers.
pub fn report_refusal() {
    // Relaxed, both: nothing is published.
    let refusal = REFUSAL.load(Ordering::Relaxed);
    if refusal != 0 && !REPORTED.swap(true, Ordering::Relaxed) {
        let error = Errno::from_raw_os_error(refusal);
        tracing::warn!(%error, "cannot wake a peer that sleeps; the next message to it tries again");
    }
}

/// Has the kernel drop every datagram to `socket` that does not begin with `token` (rule 1).
fn admit_only(socket: &OwnedFd, token: [u8; 8]) -> io::Result<()> {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const IS: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    // The filter loads in network order. A load behind the end drops the datagram.
    let [a, b, c, d, e, f, g, h] = token;
    let (first, second) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
    let mut program = [
        step(LOAD, 0, 0, 0),
        step(IS, 0, 3, first),
        step(LOAD, 0, 0, 4),
        step(IS, 0, 1, second),
        step(RETURN, 0, 0, u32::MAX),
        step(RETURN, 0, 0, 0),
    ];
    let filter =
        libc::sock_fprog { len: program.len() as libc::c_ushort, filter: program.as_mut_ptr() };
    // SAFETY: the option's value is a `sock_fprog` of this length, whose `filter` points to as many
    // instructions as it says; both live during the call, which copies them.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const filter).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn datagram_socket() -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{Pid, Resource, Rlimit, WaitOptions};

    use super::*;
    use crate::doorbell::{Doorbell, Sleep};
    use crate::job::{JobMemory, JobSpec};

    fn job() -> JobMemory {
        let spec = JobSpec { job_id: 1, ranks: 1, first_rank: 0, area_bytes: 0 };
        let job = JobMemory::create_memfd(&spec).unwrap();
        job.attach(0).unwrap();
        job
    }

    fn readable(bell: &Doorbell) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(bell.event_fd().unwrap(), PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&now)).unwrap() == 1
    }

    /// What any process of the machine can do: it reads the name in `/proc/net/unix` and sends.
    #[test]
    fn datagrams_of_those_who_have_not_the_memory_wake_nobody() {
        let job = job();
        let bell = Doorbell::of_job(&job, 0).unwrap();
        bell.event_fd().unwrap();
        let sender = datagram_socket().unwrap();
        let socket = job.wake_socket(0).unwrap();
        let (name, token) = (&socket.name, socket.token);
        let mut wrong = [token; 2];
        wrong[0][0] ^= 1;
        wrong[1][7] ^= 0x80;
        let long = [wrong[0], token].concat();
        let empty: &[u8] = &[];
        for bytes in [&wrong[0], &wrong[1], &token[..7], &token[..4], &long, &[1], empty] {
            let _ = rustix::net::sendto(&sender, bytes, SendFlags::DONTWAIT, name);
            assert!(!readable(&bell), "woken by {bytes:?}");
        }
        assert!(socket.wake() && readable(&bell), "a peer wakes it");
        bell.disarm();
        assert!(!readable(&bell));
    }

    /// In a process of its own, since it takes every descriptor there is.
    #[test]
    fn a_process_short_of_descriptors_wakes_its_peers() {
        // SAFETY: the child has one thread, which runs this file's own code and leaves by `_exit`;
        // the C library allows it to allocate.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let passed = std::panic::catch_unwind(short_of_descriptors).is_ok();
            // SAFETY: `_exit` has no preconditions and runs no destructor of the parent's state.
            unsafe { libc::_exit(i32::from(!passed)) };
        }
        let status = rustix::process::waitpid(Pid::from_raw(pid), WaitOptions::empty());
        assert_eq!(status.unwrap().unwrap().1.exit_status(), Some(0));
    }

    fn short_of_descriptors() {
        let job = job();
        let sleeper = Doorbell::of_job(&job, 0).unwrap();
        sleeper.event_fd().unwrap();
        let waker = Doorbell::of_job(&job, 0).unwrap();
        let limit = Rlimit { current: Some(256), maximum: Some(256) };
        rustix::process::setrlimit(Resource::Nofile, limit).unwrap();
        let mut all = Vec::new();
        while let Ok(fd) = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC) {
            all.push(fd);
        }
        static PLACE: AtomicI32 = AtomicI32::new(NONE);
        assert_eq!(made_in(&PLACE).err(), Some(Errno::MFILE));
        sleeper.arm(Sleep::Fd);
        waker.ring();
        assert!(readable(&sleeper), "the socket was made when the doorbell was opened");
        sleeper.disarm();
        drop(all);
        assert!(made_in(&PLACE).is_ok(), "a failure is not remembered");
    }
}
