//! An interface connected to itself: a queue's consumer uses its own words through its device where
//! the device's atomics are not those of the processor.

use std::collections::HashMap;

use bowline_ofi::{OfiIface, OfiOptions};
use bowline_uct::conformance::skipped;
use bowline_uct::{
    Arrival, AtomicOp, AtomicWidth, Caps, EpId, Iface, MemoryDomain, OneSided, PeerFailure,
    PostError, Posted, RemoteSlice, Sink, Source, Token, Verdict,
};

#[derive(Default)]
struct Notes {
    completed: HashMap<u64, Result<u64, PeerFailure>>,
    arrived: u32,
}

impl Sink for Notes {
    fn am(&mut self, _: Arrival<'_>) -> Verdict {
        self.arrived += 1;
        Verdict::Consumed
    }
    fn completed(&mut self, token: Token, result: Result<u64, PeerFailure>) {
        self.completed.insert(token.0, result);
    }
    fn writable(&mut self, _: EpId) {}
    fn failed(&mut self, _: Option<Source>, _: Option<EpId>, how: PeerFailure) {
        panic!("it failed to itself: {how}");
    }
}

struct Alone {
    iface: OfiIface,
    notes: Notes,
    next: u64,
}

impl Alone {
    /// Posts until there is space, and waits for the completion.
    fn finish<R>(
        &mut self,
        mut post: impl FnMut(&mut OfiIface, Token) -> Result<R, PostError>,
        at_once: impl Fn(R) -> Option<u64>,
    ) -> u64 {
        self.next += 1;
        let token = Token(self.next);
        for _ in 0..10_000_000u64 {
            match post(&mut self.iface, token) {
                Ok(posted) => {
                    if let Some(value) = at_once(posted) {
                        return value;
                    }
                    break;
                }
                Err(PostError::NoResource) => {
                    self.iface.progress(&mut self.notes, 16);
                }
                Err(error) => panic!("{error}"),
            }
        }
        for _ in 0..10_000_000u64 {
            if let Some(result) = self.notes.completed.remove(&token.0) {
                return result.expect("it completes");
            }
            self.iface.progress(&mut self.notes, 16);
        }
        panic!("an operation to itself does not end");
    }
}

fn to_itself(provider: &str) {
    let mut options = OfiOptions::default();
    options.provider = Some(provider.to_owned());
    let iface = match OfiIface::open(options) {
        Ok(iface) => iface,
        Err(why) => return skipped(format_args!("{provider}: {why}")),
    };
    if !iface.attr().caps.intersects(Caps::ATOMIC_CPU | Caps::ATOMIC_DEVICE) {
        return skipped(format_args!("{provider} has no atomics"));
    }
    let mut alone = Alone { iface, notes: Notes::default(), next: 0 };
    let address = alone.iface.address();
    let ep = alone.iface.connect(&address).expect("it connects to itself");
    let memory = alone.iface.mem_alloc(64).expect("64 bytes");
    let packed = alone.iface.rkey_pack(memory).expect("a key");
    let rkey = alone.iface.rkey_unpack(ep, &packed).expect("its own key");
    let view = alone.iface.mem_view(memory).expect("its own memory");
    let start = view.as_ptr().addr() as u64;
    let posted = |posted| (posted == Posted::Done).then_some(0);
    alone.finish(
        |iface, _| {
            let to = RemoteSlice { address: start + 8, rkey };
            iface.put_short(ep, &77u64.to_le_bytes(), to)
        },
        |()| Some(0),
    );
    alone.finish(|iface, token| iface.flush(ep, token), posted);
    for round in 0..100u64 {
        let at = RemoteSlice { address: start, rkey };
        let op = AtomicOp::Add(3);
        let old = alone
            .finish(|iface, token| iface.atomic(ep, op, AtomicWidth::W64, at, token), |old| old);
        assert_eq!(old, round * 3, "{provider}");
    }
    alone.finish(|iface, token| iface.flush(ep, token), posted);
    let mut bytes = [0; 16];
    alone.iface.mem_view(memory).expect("still there").copy_out(&mut bytes);
    assert_eq!(bytes[..8], 300u64.to_le_bytes(), "{provider}");
    assert_eq!(bytes[8..], 77u64.to_le_bytes(), "{provider}");
    assert_eq!(alone.notes.arrived, 0);
}

#[test]
fn tcp() {
    to_itself("tcp");
}

#[test]
fn net() {
    to_itself("net");
}

#[test]
fn shm() {
    to_itself("shm");
}

#[test]
fn rxd() {
    to_itself("udp;ofi_rxd");
}
