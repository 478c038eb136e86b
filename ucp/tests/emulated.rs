//! Puts, gets and atomics that the owner of the memory carries out, over a simulated network that has
//! no one-sided operations, and where it lacks a part of them.

use crate::sides::Sides;
use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_sim::NetworkOptions;
use bowline_ucp::{
    CloseMode, Ep, Fence, Handle, MemoryHandle, OpError, OpStatus, RemoteKey, RmaError, Sent,
    Worker,
};
use bowline_uct::{AtomicOp, AtomicWidth};
use proptest::prelude::*;

const LEN: usize = 100_000;

/// A network without one-sided operations.
fn bare() -> NetworkOptions {
    NetworkOptions { one_sided: false, ..NetworkOptions::default() }
}

/// Two workers, the second one's memory, and the first one's key to it.
struct Far {
    sides: Sides,
    memory: MemoryHandle,
    base: u64,
    ep: Ep,
    key: RemoteKey,
}

impl Far {
    fn new(options: NetworkOptions) -> Self {
        let sides = Sides::new(2, options, &[]);
        let memory = sides.workers[1].mem_register(RecvBuf::owned(vec![0; LEN]));
        let memory = memory.expect("a worker takes memory that its lanes do not");
        let base = base(&sides.workers[1], memory);
        let packed = sides.workers[1].rkey_pack(memory).expect("it is there");
        let ep = sides.connect(0, 1);
        let key = sides.workers[0].rkey_unpack(ep, &packed).expect("its owner serves it");
        Self { sides, memory, base, ep, key }
    }

    fn put(&self, at: usize, bytes: &[u8]) -> OpStatus {
        let (worker, at) = (&self.sides.workers[0], self.base + at as u64);
        self.sides.end(0, worker.put(self.key, at, SendBuf::owned(bytes.to_vec())))
    }

    fn get(&self, at: usize, len: usize) -> Result<Vec<u8>, OpError> {
        let (worker, at) = (&self.sides.workers[0], self.base + at as u64);
        match worker.get(self.key, at, RecvBuf::owned(vec![0xee; len]))? {
            Sent::Done => panic!("who owns the bytes gets them back with the request"),
            Sent::Pending(id) => {
                self.sides.until(|| worker.is_complete(id));
                let (status, bytes) = worker.take_with_buffer(id).expect("it is complete");
                status.outcome.map(|()| bytes.expect("the buffer is owned"))
            }
        }
    }

    fn change(&self, at: usize, op: AtomicOp, width: AtomicWidth) -> Result<u64, OpError> {
        let (worker, at) = (&self.sides.workers[0], self.base + at as u64);
        match worker.atomic_fetch(self.key, at, op, width)? {
            Ok(old) => Ok(old),
            Err(id) => {
                self.sides.until(|| worker.is_complete(id));
                let status = worker.take(id).expect("it is complete");
                status.outcome.map(|()| status.length)
            }
        }
    }

    fn content(&self) -> Vec<u8> {
        let view = self.sides.workers[1].mem_view(self.memory, |view| view.to_vec());
        view.expect("it is there")
    }
}

fn base(worker: &Worker, memory: MemoryHandle) -> u64 {
    worker.mem_view(memory, |view| view.as_ptr().addr() as u64).expect("it is there")
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + (i >> 8)) as u8).collect()
}

#[test]
fn what_is_put_is_there_and_is_read_back() {
    let far = Far::new(bare());
    let mut at = 0;
    for len in [1, 8, 100, 5_000, 40_001] {
        let bytes = pattern(len);
        assert_eq!(far.put(at, &bytes).outcome, Ok(()));
        assert_eq!(far.content()[at..at + len], bytes);
        assert_eq!(far.get(at, len).as_deref(), Ok(&bytes[..]));
        at += len + 3;
    }
    assert_eq!(far.put(7, &[]).outcome, Ok(()));
    assert_eq!(far.get(7, 0), Ok(Vec::new()));
    let counters = far.sides.workers[0].counters();
    assert!(counters.emulated >= 10, "{counters:?}");
    assert!(counters.protocols().iter().any(|used| used.protocol == "by the owner"));
}

#[test]
fn messages_in_pieces_are_put_and_got() {
    let far = Far::new(bare());
    let bytes = pattern(30_000);
    let worker = &far.sides.workers[0];
    let pieces = bytes.chunks(777).map(<[u8]>::to_vec).collect();
    let put = worker.put(far.key, far.base, SendBuf::pieces(pieces));
    assert_eq!(far.sides.end(0, put).outcome, Ok(()));
    let buffer = RecvBuf::pieces(vec![vec![0; 11], vec![], vec![0; 30_000 - 11]]);
    let Ok(Sent::Pending(id)) = worker.get(far.key, far.base, buffer) else { panic!("it begins") };
    far.sides.until(|| worker.is_complete(id));
    let (_, handle) = worker.take_with_handle(id).expect("it is complete");
    let Some(Handle::Receive(handle)) = handle else { panic!("it was given one") };
    assert_eq!(handle.into_pieces().expect("as it was given").concat(), bytes);
}

#[test]
fn every_atomic_gives_the_old_value() {
    let far = Far::new(bare());
    let word = |at: usize| {
        let content = far.content();
        u64::from_le_bytes(content[at..at + 8].try_into().expect("eight bytes"))
    };
    // The buffer need not begin at a word.
    let at = far.base.next_multiple_of(8) as usize - far.base as usize;
    let w = AtomicWidth::W64;
    let steps = [
        (AtomicOp::Add(u64::MAX), 0, u64::MAX),
        (AtomicOp::And(0xff00), u64::MAX, 0xff00),
        (AtomicOp::Or(0x11), 0xff00, 0xff11),
        (AtomicOp::Xor(0x10), 0xff11, 0xff01),
        (AtomicOp::Swap(5), 0xff01, 5),
        (AtomicOp::Cswap { compare: 4, new: 6 }, 5, 5),
        (AtomicOp::Cswap { compare: 5, new: 6 }, 5, 6),
    ];
    for (op, old, new) in steps {
        assert_eq!(far.change(at, op, w), Ok(old), "{op:?}");
        assert_eq!(word(at), new, "{op:?}");
    }
    let narrow = AtomicOp::Add(u64::from(u32::MAX));
    assert_eq!(far.change(at + 4, narrow, AtomicWidth::W32), Ok(0));
    assert_eq!(word(at), u64::from(u32::MAX) << 32 | 6);
    assert_eq!(far.change(at + 4, AtomicOp::Add(1), w), Err(OpError::BadRemote));
    // Those without a result are done by the end of a flush.
    let worker = &far.sides.workers[0];
    for _ in 0..100 {
        let posted = worker.atomic_post(far.key, far.base + at as u64 + 8, AtomicOp::Add(1), w);
        assert_eq!(posted, Ok(()));
    }
    assert_eq!(far.sides.end(0, worker.flush_ep(far.ep)).outcome, Ok(()));
    assert_eq!(word(at + 8), 100);
}

#[test]
fn what_does_not_fit_fails_and_changes_nothing() {
    let far = Far::new(bare());
    for (at, len) in [(LEN, 1), (LEN - 3, 4), (0, LEN + 1), (usize::MAX - 20, 8)] {
        let at = far.base.wrapping_add(at as u64);
        let worker = &far.sides.workers[0];
        let put = worker.put(far.key, at, SendBuf::owned(vec![1; len]));
        assert_eq!(far.sides.end(0, put).outcome, Err(OpError::BadRemote), "{at} {len}");
        let got = worker.get(far.key, at, RecvBuf::owned(vec![1; len]));
        assert_eq!(far.sides.end(0, got).outcome, Err(OpError::BadRemote), "{at} {len}");
    }
    // A long one may have changed what lies before the end, as over any transport; nothing else.
    assert_eq!(far.content().len(), LEN);
    let pieces = far.sides.workers[0].put(far.key, far.base, SendBuf::packed_by(Box::new(Zeros)));
    assert!(matches!(pieces, Err(OpError::Unsupported)), "{pieces:?}");
    assert_eq!(far.put(5, &[7]).outcome, Ok(()));
    assert_eq!(far.content()[5], 7);
}

struct Zeros;

impl bowline_base::buffer::Pack for Zeros {
    fn packed_size(&self) -> usize {
        9
    }
    fn pack(&mut self, _: usize, out: &mut [u8]) {
        out.fill(0);
    }
}

#[test]
fn released_memory_and_released_keys_are_refused() {
    let far = Far::new(bare());
    assert_eq!(far.put(0, &[1]).outcome, Ok(()));
    let back = far.sides.workers[1].mem_release(far.memory).expect("it is there");
    assert_eq!(back.and_then(RecvBuf::into_owned).expect("it was given so")[0], 1);
    assert!(far.sides.workers[1].mem_release(far.memory).is_err());
    assert!(far.sides.workers[1].rkey_pack(far.memory).is_err());
    // Other memory in its place is not reached by the old key.
    let next = far.sides.workers[1].mem_register(RecvBuf::owned(vec![0; LEN]));
    next.expect("as before");
    assert_eq!(far.put(0, &[2]).outcome, Err(OpError::BadRemote));
    assert_eq!(far.get(0, 2), Err(OpError::BadRemote));
    far.sides.workers[0].rkey_release(far.key);
    let worker = &far.sides.workers[0];
    let late = worker.put(far.key, far.base, SendBuf::owned(vec![3]));
    assert!(matches!(late, Err(OpError::BadRemote)), "{late:?}");
}

#[test]
fn damaged_keys_open_nothing_or_what_is_refused() {
    let far = Far::new(bare());
    let packed = far.sides.workers[1].rkey_pack(far.memory).expect("it is there");
    for cut in 0..packed.len() {
        let opened = far.sides.workers[0].rkey_unpack(far.ep, &packed[..cut]);
        assert!(matches!(opened, Err(RmaError::BadKey | RmaError::NoLane(_))), "{opened:?}");
    }
    for bit in packed.len() * 8 - 64..packed.len() * 8 {
        let mut damaged = packed.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let opened =
            far.sides.workers[0].rkey_unpack(far.ep, &damaged).expect("its form is that of one");
        let put = far.sides.workers[0].put(opened, far.base, SendBuf::owned(vec![1]));
        assert_eq!(far.sides.end(0, put).outcome, Err(OpError::BadRemote));
    }
}

#[test]
fn the_death_of_the_owner_ends_what_is_under_way() {
    let Far { mut sides, base, ep, key, .. } = Far::new(bare());
    let worker = &sides.workers[0];
    let put = worker.put(key, base, SendBuf::owned(vec![1; LEN])).expect("it begins");
    let got = worker.get(key, base, RecvBuf::owned(vec![1; LEN])).expect("it begins");
    let flush = worker.flush_ep(ep).expect("it begins");
    drop(sides.workers.remove(1));
    for sent in [put, got, flush] {
        let outcome = sides.end(0, Ok(sent)).outcome;
        assert!(matches!(outcome, Err(OpError::PeerFailed(_))), "{outcome:?}");
    }
    let late = sides.workers[0].put(key, base, SendBuf::owned(vec![1]));
    assert!(matches!(late, Err(OpError::PeerFailed(_))), "{late:?}");
}

#[test]
fn a_close_waits_for_them_or_cancels_them() {
    let far = Far::new(bare());
    let worker = &far.sides.workers[0];
    let put = worker.put(far.key, far.base, SendBuf::owned(vec![1; LEN])).expect("it begins");
    let closed = worker.close(far.ep, CloseMode::Flush);
    assert_eq!(far.sides.end(0, closed).outcome, Ok(()));
    assert_eq!(far.sides.end(0, Ok(put)).outcome, Ok(()));
    assert_eq!(far.content(), vec![1; LEN]);

    let far = Far::new(bare());
    let worker = &far.sides.workers[0];
    let put = worker.put(far.key, far.base, SendBuf::owned(vec![1; LEN])).expect("it begins");
    let closed = worker.close(far.ep, CloseMode::Force);
    assert_eq!(far.sides.end(0, Ok(put)).outcome, Err(OpError::Cancelled));
    assert_eq!(far.sides.end(0, closed).outcome, Ok(()));
    let late = worker.put(far.key, far.base, SendBuf::owned(vec![1]));
    assert!(late.is_err(), "{late:?}");
}

#[test]
fn a_fence_with_nothing_under_way_need_not_wait() {
    let far = Far::new(bare());
    assert_eq!(far.put(0, &[1]).outcome, Ok(()));
    for fence in [Fence::Weak, Fence::Strong] {
        // Nothing is under way, so that it need not wait.
        assert_eq!(far.sides.workers[0].fence_with(fence), Ok(()));
    }
}

/// A step of a program: where, how many bytes, and what.
#[derive(Clone, Debug)]
enum Do {
    Put(usize, usize),
    Get(usize, usize),
    Add(usize),
    Rounds(u32),
}

fn programs() -> impl Strategy<Value = Vec<Do>> {
    let len = || prop_oneof![3 => 1..50_usize, 1 => 5_000..30_000_usize];
    let one = prop_oneof![
        3 => (0..60_000_usize, len()).prop_map(|(at, len)| Do::Put(at, len)),
        3 => (0..60_000_usize, len()).prop_map(|(at, len)| Do::Get(at, len)),
        2 => (0..8_000_usize).prop_map(Do::Add),
        1 => (0..30_u32).prop_map(Do::Rounds),
    ];
    proptest::collection::vec(one, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Operations of one caller are carried out in the order of the calls, whatever is under way.
    #[test]
    fn random_programs_do_what_a_memory_does(program in programs(), seed: u64) {
        let options = NetworkOptions { seed, slots: 4, ..bare() };
        let far = Far::new(options);
        let worker = &far.sides.workers[0];
        let words = far.base.next_multiple_of(8) as usize - far.base as usize;
        let mut model = vec![0_u8; LEN];
        let mut reads = Vec::new();
        for (number, step) in program.into_iter().enumerate() {
            match step {
                Do::Put(at, len) => {
                    let bytes = vec![number as u8 + 1; len];
                    model[at..at + len].copy_from_slice(&bytes);
                    let put = worker.put(far.key, far.base + at as u64, SendBuf::owned(bytes));
                    if let Sent::Pending(id) = put.expect("it begins") {
                        worker.detach(id);
                    }
                }
                Do::Get(at, len) => {
                    let got = worker.get(far.key, far.base + at as u64, RecvBuf::owned(vec![0; len]));
                    let Ok(Sent::Pending(id)) = got else { panic!("it begins") };
                    reads.push((id, model[at..at + len].to_vec()));
                }
                Do::Add(word) => {
                    let at = words + word * 8;
                    let old = u64::from_le_bytes(model[at..at + 8].try_into().expect("8 bytes"));
                    model[at..at + 8].copy_from_slice(&old.wrapping_add(3).to_le_bytes());
                    let op = (AtomicOp::Add(3), AtomicWidth::W64);
                    let posted = worker.atomic_post(far.key, far.base + at as u64, op.0, op.1);
                    prop_assert_eq!(posted, Ok(()));
                }
                Do::Rounds(count) => far.sides.rounds(count),
            }
        }
        prop_assert_eq!(far.sides.end(0, worker.flush_begin()).outcome, Ok(()));
        prop_assert!(far.content() == model);
        for (id, expected) in reads {
            let (status, bytes) = worker.take_with_buffer(id).expect("the flush was behind it");
            prop_assert_eq!(status.outcome, Ok(()));
            prop_assert!(bytes == Some(expected));
        }
    }
}
