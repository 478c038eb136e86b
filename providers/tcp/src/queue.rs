//! What a connection has still to send, in order.
//!
//! The kernel takes what it has space for at once; this queue holds the rest, and everything that
//! is posted before the connection stands. Bytes that were copied lie in it; lent bytes are sent
//! from where they lie, and their token is due when the kernel has taken the last of them; memory
//! that a peer reads is searched for again at each step, so that released memory is not read.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

use bowline_uct::runtime::MemoryTable;
use bowline_uct::{LocalSlice, MemHandle, Token};
use rustix::io::Errno;

use crate::frame::{Frame, HEADER_BYTES, Status};
use crate::socket::{self, Vector};

/// Pieces in one system call.
const MAX_VECTORS: usize = 32;
/// Copied bytes are gathered in pieces of up to this length.
const PIECE: usize = 64 << 10;
/// Bytes that are named to the kernel in one system call, beyond which no segment is begun. It
/// hardly ever takes more.
const MUCH: usize = 4 << 20;
/// Sent in place of memory that was released while a peer read it.
static ZEROS: [u8; 4096] = [0; 4096];

#[derive(Debug)]
enum Segment {
    /// Copied bytes, of which `sent` are gone; `answers` of them end in this piece.
    Bytes { data: Vec<u8>, sent: usize, answers: usize },
    /// Bytes of the user, who keeps them until `token` was reported.
    Lent { slice: LocalSlice, sent: usize, token: Token },
    /// A peer reads our memory: `left` bytes from `address` on.
    Memory { handle: MemHandle, address: u64, left: usize, end: End },
}

/// The END behind memory that a peer reads, which says whether all of it was there. It goes out
/// with the last bytes of the memory, in the same call: they were there when it was made.
#[derive(Debug)]
struct End {
    request: u32,
    bytes: [u8; HEADER_BYTES],
    sent: usize,
}

impl End {
    fn new(request: u32) -> Self {
        let bytes = Frame::end(request, Status::Done).encode();
        Self { request, bytes, sent: 0 }
    }

    /// The memory is gone before all of it was sent. Nothing of END was, which comes behind it.
    fn refuse(&mut self) {
        debug_assert_eq!(self.sent, 0, "END is behind the memory");
        self.bytes = Frame::end(self.request, Status::Refused).encode();
    }
}

// SAFETY: a lent slice is only read, by system calls, and its owner keeps it until the token was
// reported, whatever thread that happens on.
unsafe impl Send for Segment {}

/// The queue of a connection.
#[derive(Debug, Default)]
pub(crate) struct SendQueue {
    segments: VecDeque<Segment>,
    bytes: usize,
    /// Answers to the peer's requests that are not sent yet.
    answers: usize,
}

impl SendQueue {
    /// Bytes not sent yet.
    #[inline]
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Answers to the peer's requests that are not sent yet.
    #[inline]
    pub(crate) const fn answers(&self) -> usize {
        self.answers
    }

    /// Bytes of memory that the queue itself holds.
    pub(crate) fn held(&self) -> usize {
        let copied = |segment: &Segment| match segment {
            Segment::Bytes { data, .. } => data.capacity(),
            _ => 0,
        };
        self.segments.capacity() * size_of::<Segment>()
            + self.segments.iter().map(copied).sum::<usize>()
    }

    /// Appends copied bytes.
    pub(crate) fn push(&mut self, parts: &[&[u8]]) {
        self.append(parts, 0);
    }

    /// Appends a copied answer to a request of the peer.
    pub(crate) fn answer(&mut self, parts: &[&[u8]]) {
        self.append(parts, 1);
    }

    fn append(&mut self, parts: &[&[u8]], more: usize) {
        self.answers += more;
        let len: usize = parts.iter().map(|part| part.len()).sum();
        self.bytes += len;
        if let Some(Segment::Bytes { data, answers, .. }) = self.segments.back_mut()
            && data.len() + len <= PIECE
        {
            *answers += more;
            parts.iter().for_each(|part| data.extend_from_slice(part));
            return;
        }
        let mut data = Vec::with_capacity(len);
        parts.iter().for_each(|part| data.extend_from_slice(part));
        self.segments.push_back(Segment::Bytes { data, sent: 0, answers: more });
    }

    /// Appends bytes of the user, of which `sent` are gone. The token comes with the last piece.
    pub(crate) fn lend(&mut self, pieces: &[LocalSlice], mut sent: usize, token: Token) {
        for (index, slice) in pieces.iter().enumerate() {
            let last = index + 1 == pieces.len();
            let skip = sent.min(slice.len());
            sent -= skip;
            self.bytes += slice.len() - skip;
            // The last piece is queued even if it is empty, for its token.
            if skip < slice.len() || last {
                let token = if last { token } else { Token::NONE };
                self.segments.push_back(Segment::Lent { slice: *slice, sent: skip, token });
            }
        }
    }

    /// Appends memory that a peer reads, and the END behind it.
    pub(crate) fn read_memory(
        &mut self,
        handle: MemHandle,
        address: u64,
        len: usize,
        request: u32,
    ) {
        self.bytes += len + HEADER_BYTES;
        self.answers += 1;
        let end = End::new(request);
        self.segments.push_back(Segment::Memory { handle, address, left: len, end });
    }

    /// Sends as much as the kernel takes. Tokens that became due are appended to `done`. Returns
    /// whether everything is gone.
    pub(crate) fn flush(
        &mut self,
        fd: BorrowedFd<'_>,
        domain: &MemoryTable,
        done: &mut Vec<Token>,
    ) -> Result<bool, Errno> {
        loop {
            self.settle(done);
            if self.segments.is_empty() {
                // A queue that was long once gives its memory back.
                if self.segments.capacity() > 64 {
                    self.segments = VecDeque::new();
                }
                return Ok(true);
            }
            let mut vectors = [Vector { iov_base: std::ptr::null_mut(), iov_len: 0 }; MAX_VECTORS];
            let count = self.gather(domain, &mut vectors);
            let offered: usize = vectors[..count].iter().map(|vector| vector.iov_len).sum();
            // SAFETY: `gather` fills in pieces of bytes that the queue owns, that users keep for
            // it, that the domain has just found and keeps, or that are static; none of them
            // goes away during the call, which borrows all of them.
            let sent = match unsafe { socket::send_pieces(fd, &vectors[..count]) } {
                Ok(sent) => sent,
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error),
            };
            self.advance(sent);
            if sent < offered {
                self.settle(done);
                return Ok(self.segments.is_empty());
            }
        }
    }

    /// Takes finished segments off the front.
    fn settle(&mut self, done: &mut Vec<Token>) {
        while let Some(front) = self.segments.front() {
            match *front {
                Segment::Bytes { ref data, sent, .. } if sent < data.len() => return,
                Segment::Lent { slice, sent, .. } if sent < slice.len() => return,
                Segment::Memory { left, ref end, .. } if left > 0 || end.sent < HEADER_BYTES => {
                    return;
                }
                Segment::Bytes { answers, .. } => self.answers -= answers,
                Segment::Lent { token, .. } => {
                    if token != Token::NONE {
                        done.push(token);
                    }
                }
                Segment::Memory { .. } => self.answers -= 1,
            }
            self.segments.pop_front();
        }
    }

    /// Names the bytes at the front of the queue to the kernel: at most [`MUCH`] of them and what
    /// belongs to the same segment.
    fn gather(&mut self, domain: &MemoryTable, out: &mut [Vector; MAX_VECTORS]) -> usize {
        let (mut count, mut offered) = (0, 0);
        let mut name = |base: *const u8, len: usize| {
            out[count] = Vector { iov_base: base.cast_mut().cast(), iov_len: len };
            count += 1;
            offered += len;
            // Space for the two pieces of a read of memory.
            offered < MUCH && count + 2 <= MAX_VECTORS
        };
        for segment in &mut self.segments {
            let more = match segment {
                Segment::Bytes { data, sent, .. } => {
                    let rest = &data[*sent..];
                    name(rest.as_ptr(), rest.len())
                }
                Segment::Lent { slice, sent, .. } => {
                    let start = slice.as_ptr().wrapping_add(*sent);
                    name(start.cast_const(), slice.len() - *sent)
                }
                Segment::Memory { left: 0, end, .. } => {
                    let rest = &end.bytes[end.sent..];
                    name(rest.as_ptr(), rest.len())
                }
                Segment::Memory { handle, address, left, end } => {
                    // SAFETY: the bytes are sent, which only reads them.
                    match unsafe { domain.reach_to_read(*handle, *address, *left) } {
                        Some(view) => {
                            name(view.as_ptr().cast_const(), view.len());
                            name(end.bytes.as_ptr(), HEADER_BYTES)
                        }
                        None => {
                            end.refuse();
                            name(ZEROS.as_ptr(), ZEROS.len().min(*left));
                            false
                        }
                    }
                }
            };
            if !more {
                break;
            }
        }
        count
    }

    /// Notes that `sent` more bytes are gone.
    fn advance(&mut self, mut sent: usize) {
        self.bytes -= sent;
        for segment in &mut self.segments {
            if sent == 0 {
                break;
            }
            match segment {
                Segment::Bytes { data, sent: gone, .. } => {
                    let step = sent.min(data.len() - *gone);
                    *gone += step;
                    sent -= step;
                }
                Segment::Lent { slice, sent: gone, .. } => {
                    let step = sent.min(slice.len() - *gone);
                    *gone += step;
                    sent -= step;
                }
                Segment::Memory { address, left, end, .. } => {
                    let step = sent.min(*left);
                    *address += step as u64;
                    *left -= step;
                    sent -= step;
                    let step = sent.min(HEADER_BYTES - end.sent);
                    end.sent += step;
                    sent -= step;
                }
            }
        }
    }

    /// Forgets everything; the tokens of what was lent are appended to `lost`.
    pub(crate) fn abandon(&mut self, lost: &mut Vec<Token>) {
        self.bytes = 0;
        self.answers = 0;
        for segment in std::mem::take(&mut self.segments) {
            if let Segment::Lent { token, .. } = segment
                && token != Token::NONE
            {
                lost.push(token);
            }
        }
    }
}
