//! Layouts of messages, and what is to be found in them.

use std::any::Any;
use std::cell::RefCell;
use std::sync::Arc;

use bowline_base::buffer::{Pack, RecvBuf, SendBuf, Unpack, UnpackRefused};
use bowline_base::layout;
use bowline_ucp::Handle;
use proptest::prelude::*;

/// How a message lies in memory; pieces by where they are cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    Whole,
    Pieces(Vec<usize>),
    Callbacks,
    /// Blocks of so many bytes, so far from one to the next, backwards if that is negative.
    Laid {
        block: usize,
        stride: i64,
    },
}

thread_local! {
    /// Memory of messages that are laid out, which their handles do not own.
    static MEMORY: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Frees the memory of messages that are laid out. They are all complete.
pub(crate) fn free() {
    MEMORY.take();
}

/// A message of `len` bytes in blocks: its layout and its address, in memory that lives until [`free`].
fn laid(len: usize, block: usize, stride: i64) -> (Arc<layout::Layout>, *mut u8) {
    let (count, rest) = (len / block, len % block);
    let blocks = layout::Layout::bytes(block).and_then(|one| one.repeated(count, stride)).unwrap();
    let rest = layout::Layout::bytes(rest).unwrap();
    let parts = [(0, 1, &blocks), (count as i64 * stride, 1, &rest)];
    let all = layout::Layout::listed(parts).unwrap();
    let (low, high) = all.true_bounds();
    let mut memory = vec![UNTOUCHED; (high - low) as usize];
    let base = memory.as_mut_ptr().wrapping_offset(-low as isize);
    MEMORY.with_borrow_mut(|all| all.push(memory));
    (Arc::new(all), base)
}

/// What nobody has written.
pub(crate) const UNTOUCHED: u8 = 0xa5;

/// Layouts for messages of about so many bytes: with short and long pieces, and empty ones.
pub(crate) fn layouts() -> impl Strategy<Value = Layout> {
    let piece = prop_oneof![Just(0), 1..20_usize, 500..3000_usize, 10_000..100_000_usize];
    prop_oneof![
        1 => Just(Layout::Whole),
        3 => proptest::collection::vec(piece, 0..40).prop_map(Layout::Pieces),
        2 => Just(Layout::Callbacks),
        2 => (1..40_usize, 0..30_i64).prop_map(|(block, gap)| {
            Layout::Laid { block, stride: block as i64 + gap }
        }),
        1 => (1..9000_usize, 0..30_i64).prop_map(|(block, gap)| {
            Layout::Laid { block, stride: -(block as i64 + gap) }
        }),
    ]
}

/// Hands out a message, each byte once and in order.
pub(crate) struct Packer(pub(crate) Vec<u8>, pub(crate) usize);

impl Pack for Packer {
    fn packed_size(&self) -> usize {
        self.0.len()
    }
    fn pack(&mut self, offset: usize, out: &mut [u8]) {
        assert_eq!(offset, self.1, "in order, each byte once");
        self.1 += out.len();
        out.copy_from_slice(&self.0[offset..self.1]);
    }
}

/// Takes a message, each byte once and in order; one of the values refuses the byte 0 at 3000.
pub(crate) struct Unpacker {
    pub(crate) buffer: Vec<u8>,
    pub(crate) next: usize,
    pub(crate) picky: bool,
}

impl Unpack for Unpacker {
    fn space(&self) -> usize {
        self.buffer.len()
    }
    fn unpack(&mut self, offset: usize, bytes: &[u8]) -> Result<(), UnpackRefused> {
        assert_eq!(offset, self.next, "in order, each byte once");
        self.next += bytes.len();
        if self.picky && self.next > 3000 {
            return Err(UnpackRefused);
        }
        self.buffer[offset..self.next].copy_from_slice(bytes);
        Ok(())
    }
}

/// The bytes in pieces of these lengths, the last of which has what is left.
pub(crate) fn cut(bytes: &[u8], lengths: &[usize]) -> Vec<Vec<u8>> {
    let (mut rest, mut pieces) = (bytes, Vec::new());
    for &len in lengths {
        let (piece, behind) = rest.split_at(len.min(rest.len()));
        pieces.push(piece.to_vec());
        rest = behind;
    }
    pieces.push(rest.to_vec());
    pieces
}

impl Layout {
    pub(crate) fn to_send(&self, data: &[u8]) -> SendBuf {
        match self {
            Self::Whole => SendBuf::owned(data.to_vec()),
            Self::Pieces(lengths) => SendBuf::pieces(cut(data, lengths)),
            Self::Callbacks => SendBuf::packed_by(Box::new(Packer(data.to_vec(), 0))),
            &Self::Laid { block, stride } => {
                let (layout, base) = laid(data.len(), block, stride);
                // SAFETY: the memory is there until `free`, and has all that the layout reaches.
                unsafe {
                    let n = layout::unpack(&layout, base, 1, 0, data.as_ptr(), data.len());
                    assert_eq!(n, data.len());
                    SendBuf::laid_out(base, layout, 1).unwrap()
                }
            }
        }
    }

    pub(crate) fn to_receive(&self, capacity: usize) -> RecvBuf {
        if let &Self::Laid { block, stride } = self {
            let (layout, base) = laid(capacity, block, stride);
            // SAFETY: the memory is there until `free`, and has all that the layout reaches.
            return unsafe { RecvBuf::laid_out(base, layout, 1) }.unwrap();
        }
        let buffer = vec![UNTOUCHED; capacity];
        match self {
            Self::Whole => RecvBuf::owned(buffer),
            Self::Pieces(lengths) => RecvBuf::pieces(cut(&buffer, lengths)),
            Self::Callbacks => {
                RecvBuf::unpacked_by(Box::new(Unpacker { buffer, next: 0, picky: false }))
            }
            Self::Laid { .. } => unreachable!("it was made above"),
        }
    }
}

/// All bytes of a buffer, as one; pieces must still be as long as they were.
#[track_caller]
pub(crate) fn content(layout: &Layout, handle: Option<Handle>) -> Vec<u8> {
    let Some(Handle::Receive(mut buffer)) = handle else {
        panic!("a receive's handle, not {handle:?}");
    };
    match layout {
        Layout::Whole => buffer.into_owned().expect("it was owned"),
        Layout::Pieces(lengths) => {
            let pieces = buffer.into_pieces().expect("it was in pieces");
            let all = pieces.concat();
            let same = cut(&all, lengths).iter().map(Vec::len).eq(pieces.iter().map(Vec::len));
            assert!(same, "the pieces are others than before");
            all
        }
        Layout::Callbacks => {
            let unpacker: Box<dyn Any> = buffer.into_unpacker().expect("there was one");
            unpacker.downcast::<Unpacker>().expect("of this type").buffer
        }
        &Layout::Laid { block, stride } => {
            let mut all = Vec::new();
            let mut begin = None;
            while let Some((start, len)) = buffer.run(all.len(), usize::MAX) {
                // SAFETY: a piece of memory that is there until `free`; the receive is over.
                all.extend_from_slice(unsafe { std::slice::from_raw_parts(start, len) });
                begin.get_or_insert(start);
            }
            // The gap behind the first block, which may be one before it.
            let gap = stride.unsigned_abs() as usize - block;
            if all.len() >= 2 * block
                && let Some(begin) = begin
            {
                let gap_at = begin.wrapping_offset(if stride < 0 {
                    -(gap as isize)
                } else {
                    block as isize
                });
                // SAFETY: there are two blocks at least, so that the gap lies inside of the memory.
                let gap = unsafe { std::slice::from_raw_parts(gap_at, gap) };
                assert!(gap.iter().all(|&byte| byte == UNTOUCHED), "the gap was written to");
            }
            all
        }
    }
}

pub(crate) fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let word = |i: usize| (i as u64 ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
    (0..len).map(|i| word(i) as u8).collect()
}
