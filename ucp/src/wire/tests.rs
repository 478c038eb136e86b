//! Golden bytes of the wire format; `docs/wire-protocol.md` has the same.

use super::*;
use proptest::prelude::*;

#[test]
fn golden_bytes_of_an_rts() {
    let rkey = WireKey::of(&[0xaa, 0xbb]).unwrap();
    let rts = Rts { request: 1, length: 0x0203, marks: Marks::NONE, address: 4, rkey };
    let mut out = [0; Rts::FIXED + MAX_RKEY];
    let n = rts.pack(&mut out);
    assert_eq!(
        &out[..n],
        [1, 0, 0, 0, 0, 0, 0, 0, 3, 2, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0xaa, 0xbb]
    );
    assert_eq!(Rts::parse(&out[..n]), Some(rts));
}

#[test]
fn golden_bytes_of_an_offer() {
    let rkey = WireKey::of(&[0xcc]).unwrap();
    let coop_request = CoopRequest { address: 1, wanted: 0x0203, piece: 4, cursor: 5, rkey };
    let mut out = [0; CoopRequest::FIXED + MAX_RKEY];
    let n = coop_request.pack(&mut out);
    let mut expected = [0; 33];
    (expected[0], expected[8], expected[9], expected[16]) = (1, 3, 2, 4);
    (expected[24], expected[32]) = (5, 0xcc);
    assert_eq!(&out[..n], expected);
    assert_eq!(CoopRequest::parse(&out[..n]), Some(coop_request));
}

#[test]
fn golden_words_of_an_am_envelope() {
    let envelope = AmEnvelope { id: 0x0102, rts: 26, header: 5 };
    assert_eq!(envelope.words(), [0x001a_0102, 5]);
    assert_eq!(AmEnvelope::parse(envelope.words()), Some(envelope));
    assert_eq!(AmEnvelope::parse([1 << 32, 0]), None);
    assert_eq!(AmEnvelope::parse([0, 1 << 32]), None);
}

#[test]
fn golden_bytes_of_a_target_buffer() {
    let rkey = WireKey::of(&[0xdd]).unwrap();
    let target = TargetBuffer { address: 1, wanted: 0x0203, rkey };
    let mut out = [0; TargetBuffer::FIXED + MAX_RKEY];
    let n = target.pack(&mut out);
    assert_eq!(&out[..n], [1, 0, 0, 0, 0, 0, 0, 0, 3, 2, 0, 0, 0, 0, 0, 0, 0xdd]);
    assert_eq!(TargetBuffer::parse(&out[..n]), Some(target));
}

#[test]
fn golden_bytes_of_what_owners_are_asked_for() {
    let packed = |remote: Remote| {
        let mut out = Vec::new();
        remote.pack(&mut out);
        out
    };
    let cswap = Remote::Atomic(AtomicOp::Cswap { compare: 1, new: 0x0203 }, AtomicWidth::W32);
    assert_eq!(
        packed(cswap),
        [3, 5, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 3, 2, 0, 0, 0, 0, 0, 0]
    );
    assert_eq!(packed(Remote::Get(0x0203)), [2, 0, 0, 0, 0, 0, 0, 0, 3, 2, 0, 0, 0, 0, 0, 0]);
    assert_eq!(packed(Remote::Put), [1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(packed(Remote::Flush), [0; 8]);
    let all =
        [AtomicOp::Add(1), AtomicOp::And(2), AtomicOp::Or(3), AtomicOp::Xor(4), AtomicOp::Swap(5)];
    let all = all.map(|op| Remote::Atomic(op, AtomicWidth::W64));
    for remote in all.into_iter().chain([cswap, Remote::Get(7), Remote::Flush]) {
        assert_eq!(Remote::parse(&packed(remote)), Some((remote, &[][..])));
    }
    let put = [&packed(Remote::Put)[..], &[9, 8]].concat();
    assert_eq!(Remote::parse(&put), Some((Remote::Put, &[9, 8][..])));
}

#[test]
fn golden_headers() {
    let (words, sequence) = ([1, 2], 0x0304_0506);
    assert_eq!(MessageId::own(RTS).header(words, sequence), [1, 2, 0x0304_0506]);
    let numbered = MessageId::numbered(0x0708_090a);
    assert_eq!(numbered.am().get(), 18);
    assert_eq!(numbered.header(words, sequence), [1, 2, 0x0708_090a_0304_0506]);
}

proptest! {
    #[test]
    fn numbers_survive_and_mean_nothing_for_other_ids(am in 0..AmId::COUNT, number: u32, order: u32) {
        let am = AmId::new(am);
        let header = MessageId::numbered(number).header([0, 0], order);
        let payload = bowline_base::view::View::empty();
        let arrival =
            Arrival { source: bowline_uct::Source(0), id: am, header, payload };
        let id = MessageId::of(&arrival);
        prop_assert_eq!((id.am(), sequence(&header)), (am, order));
        prop_assert_eq!(id.number(), (am == NUMBERED).then_some(number));
        prop_assert_eq!(am == NUMBERED || id == MessageId::own(am), true);
    }

    #[test]
    fn any_bytes_are_parsed_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        let _ = Rts::parse(&bytes);
        let _ = FirstPiece::parse(&bytes);
        if let Some((remote, data)) = Remote::parse(&bytes) {
            let mut out = Vec::new();
            remote.pack(&mut out);
            out.extend_from_slice(data);
            // An operand that its operation does not have is not read.
            prop_assert_eq!(out.len(), bytes.len());
        }
        if let Some(target) = TargetBuffer::parse(&bytes) {
            let mut out = [0; TargetBuffer::FIXED + MAX_RKEY];
            let n = target.pack(&mut out);
            prop_assert_eq!(&out[..n], &bytes[..]);
        }
        if let Some(coop_request) = CoopRequest::parse(&bytes) {
            let mut out = [0; CoopRequest::FIXED + MAX_RKEY];
            let n = coop_request.pack(&mut out);
            prop_assert_eq!(&out[..n], &bytes[..]);
        }
    }

    #[test]
    fn envelopes_survive(space: u32, source: u32, tag: u64, number: u32) {
        let header = tagged(&Envelope { space, source, tag }, number);
        prop_assert_eq!(envelope(&header), Envelope { space, source, tag });
        prop_assert_eq!(sequence(&header), number);
    }
}
