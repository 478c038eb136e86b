//! Handles of every shape, and what comes back of them.

use super::*;
use crate::view::View;

#[test]
fn owned_buffers_come_back() {
    let sent = SendBuf::owned(vec![1, 2, 3]);
    assert_eq!(sent.contiguous(), Some(&[1, 2, 3][..]));
    assert_eq!(sent.into_owned(), Some(vec![1, 2, 3]));
    let mut received = RecvBuf::owned(vec![0; 4]);
    assert_eq!(received.write_at(2, &[9, 9, 9]), 2);
    assert_eq!(received.write_at(9, &[1]), 0);
    assert_eq!(received.into_owned(), Some(vec![0, 0, 9, 9]));
}

/// Packs and takes a message as a plain one would, and counts its calls.
struct Copying(Vec<u8>, usize);

impl Pack for Copying {
    fn packed_size(&self) -> usize {
        self.0.len()
    }
    fn pack(&mut self, offset: usize, out: &mut [u8]) {
        assert_eq!(offset, self.1, "in order, each byte once");
        self.1 += out.len();
        out.copy_from_slice(&self.0[offset..offset + out.len()]);
    }
}

impl Unpack for Copying {
    fn space(&self) -> usize {
        self.0.len()
    }
    fn unpack(&mut self, offset: usize, bytes: &[u8]) -> Result<(), UnpackRefused> {
        assert_eq!(offset, self.1, "in order, each byte once");
        self.1 += bytes.len();
        assert!(!bytes.contains(&0xee), "a byte that makes it panic");
        self.0[offset..offset + bytes.len()].copy_from_slice(bytes);
        if bytes.contains(&0xdd) { Err(UnpackRefused) } else { Ok(()) }
    }
}

fn message(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 200) as u8).collect()
}

fn cut(bytes: &[u8], lengths: &[usize]) -> Vec<Vec<u8>> {
    let mut rest = bytes;
    let mut pieces = Vec::new();
    for &len in lengths {
        let (piece, behind) = rest.split_at(len.min(rest.len()));
        pieces.push(piece.to_vec());
        rest = behind;
    }
    pieces.push(rest.to_vec());
    pieces
}

#[test]
fn a_message_in_pieces_is_the_pieces_one_after_the_other() {
    let all = message(5000);
    let lengths = [0, 1, 7, 0, 0, 2000, 3];
    let mut whole = SendBuf::owned(all.clone());
    let mut pieces = SendBuf::pieces(cut(&all, &lengths));
    let mut packed = SendBuf::packed_by(Box::new(Copying(all.clone(), 0)));
    assert_eq!((whole.len(), pieces.len(), packed.len()), (5000, 5000, 5000));
    assert_eq!((whole.shape(), pieces.shape()), (MemoryLayout::Whole, MemoryLayout::Pieces(8)));
    assert_eq!(packed.shape(), MemoryLayout::Callbacks);
    assert!(pieces.short(i32::MAX).is_none() && packed.short(i32::MAX).is_none());
    assert!(whole.short(4999).is_none() && whole.short(5000).is_some());
    for step in [1, 100, 2500] {
        for (offset, buffer) in [(0, &mut whole), (0, &mut pieces)] {
            let mut offset = offset;
            while offset < 5000 {
                let mut out = vec![0xaa; step + 2];
                let n = buffer.pack_into(offset, &mut out[..step]);
                assert_eq!(n, step.min(5000 - offset));
                assert_eq!(out[..n], all[offset..offset + n]);
                assert!(out[step..] == [0xaa, 0xaa]);
                offset += n;
            }
        }
    }
    let mut out = vec![0; 5000];
    // SAFETY: `out` is used through the view alone while that is there.
    let view = unsafe { View::from_raw(out.as_mut_ptr(), out.len()) };
    assert_eq!(packed.pack(0, view.slice(0, 3000).unwrap()), 3000);
    assert_eq!(packed.pack(3000, view.slice(3000, 2000).unwrap()), 2000);
    assert_eq!(out, all);
    assert_eq!(pieces.into_pieces(), Some(cut(&all, &lengths)));
    assert!(packed.into_owned().is_none());
}

#[test]
fn runs_are_the_parts_of_pieces() {
    let all = message(100);
    let mut space = RecvBuf::pieces(cut(&all, &[0, 40, 0, 20]));
    let sent = SendBuf::pieces(cut(&all, &[0, 40, 0, 20]));
    for (offset, max, len) in [(0, 1000, 40), (39, 9, 1), (40, 7, 7), (59, 9, 1), (60, 99, 40)] {
        assert_eq!(space.run(offset, max).map(|(_, len)| len), Some(len));
        assert_eq!(sent.run(offset, max).map(|(_, len)| len), Some(len));
    }
    assert!(space.run(100, 1).is_none() && sent.run(100, 1).is_none());
    assert!(SendBuf::owned(vec![1; 3]).run(3, 1).is_none());
    assert!(RecvBuf::owned(vec![1; 3]).run(4, 1).is_none());
    assert!(SendBuf::pieces(Vec::new()).is_empty());
}

#[test]
fn nothing_beyond_the_pieces_is_touched() {
    let mut ground = vec![9_u8; 64];
    let start = ground.as_mut_ptr();
    // SAFETY: three places inside of `ground`, apart from each other, which is not read before
    // the handle is gone.
    let mut space = unsafe {
        RecvBuf::borrowed_pieces(&[(start.add(2), 3), (start.add(50), 10), (start.add(20), 4)])
    };
    assert_eq!(space.len(), 17);
    assert_eq!(space.write_at(0, &[1; 5]), 5);
    assert_eq!(space.write_at(5, &[2; 40]), 12);
    assert_eq!(space.write_at(17, &[3; 40]), 0);
    drop(space);
    let mut expected = vec![9_u8; 64];
    expected[2..5].fill(1);
    expected[50..52].fill(1);
    expected[52..60].fill(2);
    expected[20..24].fill(2);
    assert_eq!(ground, expected);
}

#[test]
fn a_callback_may_refuse_or_panic() {
    for (byte, fails) in [(1, false), (0xdd, true), (0xee, true)] {
        let mut space = RecvBuf::unpacked_by(Box::new(Copying(vec![0; 5000], 0)));
        let mut all = message(4500);
        all[2500] = byte;
        assert_eq!(space.write_at(0, &all[..2000]), 2000);
        assert_eq!(space.write_at(2000, &all[2000..]), if fails { 0 } else { 2500 });
        assert_eq!(space.failed(), fails);
        assert!(space.run(0, 1).is_none());
        let back: Box<dyn std::any::Any> = space.into_unpacker().expect("there is one");
        let back = back.downcast::<Copying>().expect("of this type");
        assert!(back.0[..2000] == all[..2000]);
    }
    let mut space = RecvBuf::unpacked_by(Box::new(Copying(vec![0; 10], 0)));
    assert_eq!(space.write_at(0, &[1; 20]), 10);
    assert_eq!((space.write_at(3, &[1; 2]), space.failed()), (0, true));
}

#[test]
fn a_message_that_is_laid_out_is_its_elements_one_after_the_other() {
    use crate::layout::Layout;
    use std::sync::Arc;

    // Two bytes, a gap of one, a byte; four bytes further on the next element.
    let (two, one) = (Layout::bytes(2).unwrap(), Layout::bytes(1).unwrap());
    let element = Layout::listed([(0, 1, &two), (3, 1, &one)]).unwrap().with_extent(4);
    let element = Arc::new(element);
    let mut memory: Vec<u8> = (0..40).collect();
    // SAFETY: the memory outlives the handle, and is not written meanwhile.
    let mut sent = unsafe { SendBuf::laid_out(memory.as_ptr(), Arc::clone(&element), 10) }.unwrap();
    // The last byte of an element touches the first of the next, but the pieces are counted by element.
    assert_eq!((sent.len(), sent.shape()), (30, MemoryLayout::Pieces(20)));
    assert!(sent.short(i32::MAX).is_none() && sent.contiguous().is_none());
    let expected: Vec<u8> = (0..40).filter(|byte| byte % 4 != 2).collect();
    for offset in [29, 0, 7, 4, 30, 31] {
        let mut out = [0xaa; 12];
        let n = sent.pack_into(offset, &mut out[..10]);
        assert_eq!(n, 30_usize.saturating_sub(offset).min(10));
        assert_eq!(out[..n], expected[offset.min(30)..][..n]);
        assert!(out[n..].iter().all(|&byte| byte == 0xaa));
        // SAFETY: the array is used through the view only, while it is there.
        let view = unsafe { View::from_raw(out.as_mut_ptr(), 10) };
        assert_eq!(sent.pack(offset, view), n);
        assert_eq!(out[..n], expected[offset.min(30)..][..n]);
    }
    assert_eq!(sent.run(2, 100).map(|(_, len)| len), Some(1));
    assert!(sent.run(30, 1).is_none());
    assert!(sent.into_pieces().is_none());
    let start = memory.as_mut_ptr();
    // SAFETY: the memory outlives the handle, and is nobody else's meanwhile.
    let mut space = unsafe { RecvBuf::laid_out(start, Arc::clone(&element), 10) }.unwrap();
    assert_eq!((space.len(), space.shape(), space.failed()), (30, MemoryLayout::Pieces(20), false));
    assert_eq!(space.write_at(25, &[0xbb; 9]), 5);
    assert_eq!(space.write_at(4, &[0xcc; 3]), 3);
    assert_eq!(space.write_at(30, &[0xdd; 3]), 0);
    assert_eq!(space.run(29, 5).map(|(_, len)| len), Some(1));
    drop(space);
    for (at, &byte) in memory.iter().enumerate() {
        let expected = match at {
            33 | 35 | 36 | 37 | 39 => 0xbb,
            5 | 7 | 8 => 0xcc,
            at => at as u8,
        };
        assert_eq!(byte, expected, "at {at}");
    }
    // SAFETY: there are no bytes.
    let none = unsafe { SendBuf::laid_out(std::ptr::null(), element, 0) }.unwrap();
    assert_eq!((none.len(), none.shape()), (0, MemoryLayout::Whole));
}
