//! Copies between this process and a peer's memory: `process_vm_readv` / `process_vm_writev`
//! (cross memory attach, Linux 3.2).
//!
//! The kernel checks both sides' addresses, so a wrong one is an error and never a fault. What is
//! not here: who may be copied from (the probe's result lives in the endpoint), which range a
//! key opens ([`crate::rkey`] checks that before), and copies between threads of this process, whose
//! addresses the kernel does not see ([`crate::lent`]).
//!
//! The kernel copies by a string instruction, which is four times slower between aliased addresses
//! ([`bowline_base::copy`]). Such bytes make a stop in a bounce buffer, which is aliased with neither side.
//!
//! A transfer loops, since one call moves at most `0x7ffff000` bytes and 1024 pieces and may stop
//! anywhere in between; it continues where the kernel stopped.

use std::io;

use bowline_base::copy::copy_bytes;
use bowline_base::copy::is_aliased;
use bowline_uct::LocalSlice;
use rustix::fd::BorrowedFd;
use rustix::process::Pid;

/// The direction in which the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the peer to here.
    Read,
    /// From here to the peer.
    Write,
}

/// Whose memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target<'a> {
    /// A rank of the same node memory, which was not marked dead when the transfer began. The
    /// launcher of this project reaps its ranks late, so their pids stay theirs. Under another one a
    /// rank that dies is marked by those that watch its pidfd, at once: its pid would have to go round
    /// all numbers in between, and the address be mapped in the process that got it. A pidfd for each
    /// peer would cost a descriptor and a call for every transfer.
    Process(Pid),
    /// A process nobody holds for us: its pidfd is polled before every bounded segment.
    Watched(Pid, BorrowedFd<'a>),
}

/// Why a transfer stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The kernel forbids it (EPERM, ENOSYS): every later transfer would fail too.
    Refused,
    /// An address of the range is not mapped (EFAULT).
    Fault,
    /// The process is gone (ESRCH, or its pidfd says so).
    Gone,
    /// Anything else, which is this transfer's misfortune (ENOMEM).
    Other,
}

/// A transfer that stopped after `moved` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stopped {
    pub(crate) moved: usize,
    pub(crate) reason: Reason,
}

/// What one call moves at most (Linux `MAX_RW_COUNT`).
const CALL_MAX: usize = 0x7fff_f000;
/// Bytes between two polls of a pidfd: a pid that is recycled in the middle of a copy is noticed
/// after about a millisecond.
const SEGMENT: usize = 8 << 20;
/// Pieces handed to the kernel at once. It would take 1024; 32 of them keep the stack small and
/// cost nothing measurable against the copy.
const PIECES: usize = 32;

/// Bytes between aliased addresses from which one copy more is the shorter way.
const ALIASED: usize = 1024;
/// Bytes that go through a bounce buffer at once: as many as stay in a processor's second cache.
const BOUNCE: usize = 64 << 10;
/// A page, whose half is the furthest that two addresses are apart in their low bits.
const PAGE: usize = 4096;

/// Memory for bytes between aliased addresses. Nothing of it is there before it is used.
#[derive(Debug)]
pub(crate) struct BounceBuffer(Box<[u8]>);

impl BounceBuffer {
    pub(crate) fn new() -> Self {
        Self(vec![0; BOUNCE + PAGE].into())
    }

    /// `len` bytes of it that are aliased neither with the peer's memory at `remote` nor with what is aliased with that.
    fn beside(&mut self, remote: usize, len: usize) -> &mut [u8] {
        let wanted = remote.wrapping_add(PAGE / 2);
        let skip = wanted.wrapping_sub(self.0.as_ptr().addr()) % PAGE;
        &mut self.0[skip..skip + len]
    }
}

/// Moves the bytes of `local`, in order, from or to `remote`.
pub(crate) fn transfer(
    direction: Direction,
    target: Target<'_>,
    local: &[LocalSlice],
    remote: u64,
    bounce: &mut BounceBuffer,
) -> Result<(), Stopped> {
    let (pid, segment) = match target {
        Target::Process(pid) => (pid, CALL_MAX),
        Target::Watched(pid, _) => (pid, SEGMENT),
    };
    let mut moved = 0usize;
    let mut cursor = Cursor { pieces: local, skip: 0 };
    loop {
        let there = remote.wrapping_add(moved as u64);
        let mut iov = [EMPTY; PIECES];
        let next = cursor.fill(&mut iov, segment, (direction, there as usize));
        if next == Next::End {
            return Ok(());
        }
        if let Target::Watched(_, pidfd) = target
            && process_ended(pidfd)
        {
            return Err(Stopped { moved, reason: Reason::Gone });
        }
        let outcome = match next {
            Next::Pieces { count, bytes } => one_call(direction, pid, &iov[..count], there, bytes),
            Next::Aliased { at, len } => {
                let through = bounce.beside(there as usize, len);
                bounced(direction, pid, at, through, there)
            }
            Next::End => unreachable!("returned above"),
        };
        match outcome {
            Ok(n) => {
                moved += n;
                cursor.advance(n);
            }
            Err(reason) => return Err(Stopped { moved, reason }),
        }
    }
}

/// Moves bytes between the piece of memory at `at` and the peer's, through `bounce`. Returns how many, at most as many as
/// that has.
fn bounced(
    direction: Direction,
    pid: Pid,
    at: *mut u8,
    bounce: &mut [u8],
    remote: u64,
) -> Result<usize, Reason> {
    if direction == Direction::Write {
        // SAFETY: the piece is readable for as many bytes, as the caller of the operation promised, and is not the
        // bounce buffer, which no operation names.
        unsafe { copy_bytes(at, bounce.as_mut_ptr(), bounce.len()) };
    }
    let iov = [libc::iovec { iov_base: bounce.as_mut_ptr().cast(), iov_len: bounce.len() }];
    let n = one_call(direction, pid, &iov, remote, bounce.len())?;
    if direction == Direction::Read {
        let n = n.min(bounce.len());
        // SAFETY: as above, the piece being writable.
        unsafe { copy_bytes(bounce.as_ptr(), at, n) };
    }
    Ok(n)
}

/// Whether the kernel lets us read `expected.len()` bytes at `remote` of `pid`, and they are
/// the expected ones, which proves that the pid is the process that published them.
pub(crate) fn probe(pid: Pid, remote: u64, expected: u64) -> Result<bool, Reason> {
    let mut word = [0u8; 8];
    let iov = [libc::iovec { iov_base: word.as_mut_ptr().cast(), iov_len: word.len() }];
    let n = one_call(Direction::Read, pid, &iov, remote, word.len())?;
    Ok(n == word.len() && u64::from_ne_bytes(word) == expected)
}

/// Reads memory of this process in the way in which a peer's is read, to learn what that costs.
/// As many bytes as the shorter of the two has.
///
/// # Errors
/// When the kernel refuses.
pub fn read_own(from: &[u8], into: &mut [u8]) -> io::Result<()> {
    let bytes = from.len().min(into.len());
    let remote = from.as_ptr().addr() as u64;
    let mut done = 0;
    while done < bytes {
        let rest = &mut into[done..bytes];
        let iov = [libc::iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: rest.len() }];
        let pid = rustix::process::getpid();
        done += one_call(Direction::Read, pid, &iov, remote + done as u64, rest.len())
            .map_err(|reason| io::Error::other(format!("{reason:?}")))?;
    }
    Ok(())
}

pub(crate) fn process_ended(pidfd: BorrowedFd<'_>) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::new(&pidfd, PollFlags::IN)];
    // A pidfd becomes readable when its process ends. An interrupted or refused poll says
    // nothing; the next segment asks again.
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut fds, Some(&now)), Ok(n) if n > 0)
}

const EMPTY: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };

/// Where in the list of local pieces the transfer is.
struct Cursor<'a> {
    pieces: &'a [LocalSlice],
    /// Bytes of the first piece that are done.
    skip: usize,
}

/// What a transfer has to move next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// So many pieces, which are described, and their bytes.
    Pieces { count: usize, bytes: usize },
    /// Bytes of one piece, which are aliased with their place in the peer's memory.
    Aliased { at: *mut u8, len: usize },
    /// Nothing.
    End,
}

impl Cursor<'_> {
    /// Describes the next pieces, at most `limit` bytes, which are to go this way from or to an address of the peer's.
    fn fill(
        &self,
        iov: &mut [libc::iovec; PIECES],
        limit: usize,
        (direction, remote): (Direction, usize),
    ) -> Next {
        let (mut count, mut bytes, mut skip) = (0, 0usize, self.skip);
        for piece in self.pieces {
            if count == PIECES || bytes == limit {
                break;
            }
            let len = (piece.len() - skip).min(limit - bytes);
            if len > 0 {
                // `wrapping_add` stays in the piece since `skip <= piece.len()`.
                let start = piece.as_ptr().wrapping_add(skip);
                let (here, there) = (start.addr(), remote.wrapping_add(bytes));
                let aliased = match direction {
                    Direction::Read => is_aliased(there, here),
                    Direction::Write => is_aliased(here, there),
                };
                if len >= ALIASED && aliased {
                    if count == 0 {
                        return Next::Aliased { at: start, len: len.min(BOUNCE) };
                    }
                    break;
                }
                iov[count] = libc::iovec { iov_base: start.cast(), iov_len: len };
                count += 1;
                bytes += len;
            }
            skip = 0;
        }
        if bytes == 0 { Next::End } else { Next::Pieces { count, bytes } }
    }

    fn advance(&mut self, mut n: usize) {
        while let [first, rest @ ..] = self.pieces {
            let left = first.len() - self.skip;
            if n < left {
                self.skip += n;
                return;
            }
            n -= left;
            self.skip = 0;
            self.pieces = rest;
        }
    }
}

fn one_call(
    direction: Direction,
    pid: Pid,
    local: &[libc::iovec],
    remote: u64,
    bytes: usize,
) -> Result<usize, Reason> {
    let there = libc::iovec { iov_base: remote as *mut libc::c_void, iov_len: bytes };
    let (pid, count) = (pid.as_raw_nonzero().get(), local.len() as libc::c_ulong);
    loop {
        // SAFETY: `local` and `there` are valid arrays of `count` and 1 entries. The local
        // entries lie in buffers whose handles the caller of the operation keeps, writable where
        // bytes are read into them; the remote entry is only an address, which the kernel checks
        // against the peer's mappings and permissions.
        let n = unsafe {
            match direction {
                Direction::Read => libc::process_vm_readv(pid, local.as_ptr(), count, &there, 1, 0),
                Direction::Write => {
                    libc::process_vm_writev(pid, local.as_ptr(), count, &there, 1, 0)
                }
            }
        };
        if n > 0 {
            return Ok(n as usize);
        }
        if n == 0 {
            // Bytes were asked for, so nothing moved can only mean an unusable range.
            return Err(Reason::Fault);
        }
        return Err(match io::Error::last_os_error().raw_os_error() {
            Some(libc::EINTR) => continue,
            Some(libc::EPERM | libc::EACCES | libc::ENOSYS) => Reason::Refused,
            Some(libc::EFAULT | libc::EINVAL) => Reason::Fault,
            Some(libc::ESRCH) => Reason::Gone,
            _ => Reason::Other,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bowline_base::buffer::{RecvBuf, SendBuf};

    fn me() -> Pid {
        rustix::process::getpid()
    }

    #[test]
    fn pieces_of_odd_sizes_come_back_in_order() {
        // More pieces than one call takes, empty ones among them.
        let source: Vec<u8> = (0..10_000u32).map(|i| (i * 7) as u8).collect();
        let address = source.as_ptr() as u64;
        let target = Target::Process(me());
        let mut parts: Vec<RecvBuf> =
            (0..100).map(|i| RecvBuf::owned(vec![0; (i * 37) % 200])).collect();
        let local: Vec<LocalSlice> = parts
            .iter_mut()
            .map(|p| {
                let len = p.len();
                // SAFETY: the buffer is kept, and left alone, until the operation has ended.
                unsafe { LocalSlice::of_recv(p, 0, len) }.unwrap()
            })
            .collect();
        transfer(Direction::Read, target, &local, address, &mut BounceBuffer::new()).unwrap();
        let got: Vec<u8> = parts.into_iter().flat_map(|p| p.into_owned().unwrap()).collect();
        assert_eq!(got, source[..got.len()]);
    }

    #[test]
    fn aliased_bytes_come_whole_in_either_direction() {
        let lengths = [ALIASED - 1, ALIASED, 5000, BOUNCE, 2 * BOUNCE + 77];
        let longest = 2 * BOUNCE + 77 + 3 * PAGE;
        for (len, behind) in lengths.into_iter().flat_map(|len| [(len, 1), (len, 16), (len, 63)]) {
            for direction in [Direction::Read, Direction::Write] {
                let mut from: Vec<u8> = (0..longest).map(|i| (i * 7 + i / 251) as u8).collect();
                let mut to = vec![0u8; longest];
                let skip = (from.as_ptr().addr() + behind).wrapping_sub(to.as_ptr().addr()) % PAGE;
                assert!(is_aliased(from.as_ptr().addr(), to.as_ptr().addr() + skip));
                let (source, target) = (from.as_mut_ptr(), to[skip..].as_mut_ptr());
                let (local, remote) = match direction {
                    Direction::Read => (target, source),
                    Direction::Write => (source, target),
                };
                // A short piece in front and one of no bytes: neither hides the aliased one.
                // SAFETY: both vectors have more bytes than that, and are left alone until the transfer has ended.
                let pieces = unsafe {
                    [
                        LocalSlice::from_raw(local, 100),
                        LocalSlice::from_raw(local.add(100), 0),
                        LocalSlice::from_raw(local.add(100), len),
                    ]
                };
                let mut bounce = BounceBuffer::new();
                let remote = remote.addr() as u64;
                transfer(direction, Target::Process(me()), &pieces, remote, &mut bounce).unwrap();
                assert_eq!(to[skip..skip + 100 + len], from[..100 + len], "{len} {behind}");
                assert!(to[..skip].iter().chain(&to[skip + 100 + len..]).all(|&byte| byte == 0));
                let used = bounce.0.iter().any(|&byte| byte != 0);
                assert_eq!(used, len >= ALIASED, "{len} bytes through the buffer");
            }
        }
    }

    #[test]
    fn an_unmapped_range_stops_where_it_begins() {
        let page = rustix::param::page_size();
        // SAFETY: a fresh private mapping of two pages, unmapped at the end of the test.
        let map = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                2 * page,
                rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE,
                rustix::mm::MapFlags::PRIVATE,
            )
        }
        .unwrap();
        // SAFETY: the second page of the mapping above, which nothing refers to.
        unsafe { rustix::mm::munmap(map.cast::<u8>().add(page).cast(), page) }.unwrap();
        let data = SendBuf::owned(vec![5; 2 * page]);
        // SAFETY: the buffer is kept, and left alone, until the operation has ended.
        let whole = [unsafe { LocalSlice::of_send(&data, 0, 2 * page) }.unwrap()];
        let mut bounce = BounceBuffer::new();
        let target = Target::Process(me());
        let stop = transfer(Direction::Write, target, &whole, map as u64, &mut bounce);
        assert_eq!(stop, Err(Stopped { moved: page, reason: Reason::Fault }));
        // SAFETY: the first page, which nothing refers to any more.
        unsafe { rustix::mm::munmap(map, page) }.unwrap();
    }

    #[test]
    fn the_probe_recognises_another_process_by_its_word() {
        let word = 0x1234_5678_9abc_def0u64;
        let at = (&raw const word) as u64;
        assert_eq!(probe(me(), at, word), Ok(true));
        assert_eq!(probe(me(), at, word + 1), Ok(false));
        assert_eq!(probe(me(), 8, word), Err(Reason::Fault));
    }

    #[test]
    fn an_ended_process_is_noticed() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let pid = Pid::from_raw(child.id() as i32).unwrap();
        let fd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap();
        use rustix::fd::AsFd;
        assert!(!process_ended(fd.as_fd()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(process_ended(fd.as_fd()));
        let data = SendBuf::owned(vec![1; 8]);
        // SAFETY: the buffer is kept, and left alone, until the operation has ended.
        let piece = [unsafe { LocalSlice::of_send(&data, 0, 8) }.unwrap()];
        let target = Target::Watched(pid, fd.as_fd());
        let mut bounce = BounceBuffer::new();
        let stop = transfer(Direction::Write, target, &piece, 4096, &mut bounce);
        assert_eq!(stop, Err(Stopped { moved: 0, reason: Reason::Gone }));
    }
}
