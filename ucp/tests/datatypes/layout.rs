//! Layouts of messages, and what is to be found in them.

use std::any::Any;

use bowline_base::buffer::{Pack, RecvBuf, Refused, SendBuf, Unpack};
use bowline_ucp::Handle;
use proptest::prelude::*;

/// How a message lies in memory; pieces by where they are cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    Whole,
    Pieces(Vec<usize>),
    Callbacks,
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
    pub(crate) room: Vec<u8>,
    pub(crate) next: usize,
    pub(crate) picky: bool,
}

impl Unpack for Unpacker {
    fn room(&self) -> usize {
        self.room.len()
    }
    fn unpack(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Refused> {
        assert_eq!(offset, self.next, "in order, each byte once");
        self.next += bytes.len();
        if self.picky && self.next > 3000 {
            return Err(Refused);
        }
        self.room[offset..self.next].copy_from_slice(bytes);
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
        }
    }

    pub(crate) fn to_receive(&self, room: usize) -> RecvBuf {
        let room = vec![UNTOUCHED; room];
        match self {
            Self::Whole => RecvBuf::owned(room),
            Self::Pieces(lengths) => RecvBuf::pieces(cut(&room, lengths)),
            Self::Callbacks => {
                RecvBuf::unpacked_by(Box::new(Unpacker { room, next: 0, picky: false }))
            }
        }
    }
}

/// All bytes of a room, as one; pieces must still be as long as they were.
#[track_caller]
pub(crate) fn content(layout: &Layout, handle: Option<Handle>) -> Vec<u8> {
    let Some(Handle::Receive(buffer)) = handle else {
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
            unpacker.downcast::<Unpacker>().expect("of this type").room
        }
    }
}

pub(crate) fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let word = |i: usize| (i as u64 ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
    (0..len).map(|i| word(i) as u8).collect()
}
