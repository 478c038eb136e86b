//! Feeds an interface arbitrary bytes, as an unauthenticated or a damaged peer would send them. Whatever
//! they are, it goes on: a failed peer is fine, a panic, a hang or an access outside of what a key
//! opens is not.

use std::cell::RefCell;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use bowline_base::buffer::RecvBuf;
use bowline_base::slab::Key;
use bowline_base::view::View;
use bowline_uct::{
    Arrival, AtomicOp, AtomicWidth, EpId, LocalSlice, MemHandle, MemoryDomain, OneSided,
    PeerFailure, Posted, RemoteSlice, Sink, Source, Token, Verdict,
};

use crate::addr::Address;
use crate::handshake::Handshake;
use crate::hello::{self, Answer, Challenge, Hello, Purpose};
use crate::iface::TcpIface;
use crate::md::Packed;
use crate::options::TcpOptions;
use crate::peer::{Peer, State};

/// Longest input that is sent: all of it must fit into a socket that nobody reads meanwhile.
const MOST: usize = 64 << 10;
/// Bytes of memory that the input may name.
const MEMORY: usize = 16 << 10;
/// Inputs after which an interface is made anew.
const INPUTS: u32 = 4096;

/// In the input, the address of memory that may be named, and its handle.
const ADDRESS: [u8; 8] = *b"ADDRESS!";
const HANDLE: [u8; 8] = *b"HANDLE!!";

#[derive(Default)]
struct Counting {
    arrivals: usize,
    bytes: usize,
    completed: Vec<Token>,
}

impl Sink for Counting {
    fn am(&mut self, arrival: Arrival<'_>) -> Verdict {
        self.arrivals += 1;
        self.bytes += arrival.payload.to_vec().len();
        Verdict::Consumed
    }
    fn completed(&mut self, token: Token, _: Result<u64, PeerFailure>) {
        self.completed.push(token);
    }
    fn writable(&mut self, _: EpId) {}
    fn failed(&mut self, _: Option<Source>, _: Option<EpId>, _: PeerFailure) {}
}

struct Bench {
    iface: TcpIface,
    memory: MemHandle,
    inputs: u32,
}

fn bench() -> Bench {
    let mut options = TcpOptions::with_secret([1; 32]);
    options.linger = Duration::ZERO;
    options.max_bcopy = 4096;
    let mut iface = TcpIface::open(options).expect("an interface can be opened");
    let memory = iface.mem_alloc(MEMORY).expect("memory for the inputs");
    Bench { iface, memory, inputs: 0 }
}

/// Runs `body` with an interface that is kept from input to input.
fn with_bench(body: impl FnOnce(&mut Bench)) {
    thread_local! {
        static BENCH: RefCell<Option<Bench>> = const { RefCell::new(None) };
    }
    BENCH.with_borrow_mut(|kept| {
        let mut here = kept.take().filter(|kept| kept.inputs < INPUTS).unwrap_or_else(bench);
        here.inputs += 1;
        body(&mut here);
        // What panics is not used again.
        *kept = Some(here);
    });
}

fn replace(bytes: &mut [u8], mark: [u8; 8], with: u64) {
    for at in 0..bytes.len().saturating_sub(7) {
        if bytes[at..at + 8] == mark {
            bytes[at..at + 8].copy_from_slice(&with.to_le_bytes());
        }
    }
}

/// Bytes of a peer that proved itself, in pieces whose lengths the first byte draws, to an
/// interface that has asked it for a few things.
pub fn frames(bytes: &[u8]) {
    let Some((&pieces, bytes)) = bytes.split_first() else { return };
    let mut bytes = bytes[..bytes.len().min(MOST)].to_vec();
    with_bench(|bench| {
        let Bench { iface, memory, .. } = bench;
        let start = iface.mem_view(*memory).map_or(0, |view: View<'_>| view.as_ptr() as u64);
        replace(&mut bytes, ADDRESS, start);
        replace(&mut bytes, HANDLE, memory.0.to_wire());
        let (ours, mut theirs) = UnixStream::pair().expect("two sockets can be had");
        ours.set_nonblocking(true).expect("a socket can be set");
        theirs.set_nonblocking(true).expect("a socket can be set");
        let mut peer = Peer::new(2, State::Connecting);
        peer.has_ep = true;
        let index = iface.add_peer(peer).expect("there are numbers left");
        let mut space = RecvBuf::owned(vec![0; 8192]);
        iface.install_socket(index, OwnedFd::from(ours));
        let ep = EpId(index);
        let serial = iface.peer(index).expect("just added").serial;
        let handle = Key::NONE.to_wire();
        let rkey = iface.rkeys.insert((index, serial), 0, 1 << 20, handle);
        let at = RemoteSlice { address: 0, rkey };
        // Requests 0 to 3, which the input may answer.
        // SAFETY: the buffer is kept, and left alone, until both reads are answered, which is asserted at
        // the end.
        let short = unsafe { LocalSlice::of_recv(&mut space, 0, 8) }.expect("inside");
        // SAFETY: as above.
        let long = unsafe { LocalSlice::of_recv(&mut space, 8, 8000) }.expect("inside");
        for (piece, token) in [(short, Token(1)), (long, Token(2))] {
            let posted = iface.get_zcopy(ep, &[piece], at, token);
            assert_eq!(posted, Ok(Posted::InFlight), "a new peer has space");
        }
        let add = AtomicOp::Add(1);
        iface.atomic(ep, add, AtomicWidth::W64, at, Token(3)).expect("a new peer has space");
        iface.put_short(ep, &[1], at).expect("a new peer has space");
        assert_eq!(iface.flush(ep, Token(4)), Ok(Posted::InFlight), "a new peer has space");
        let mut seen = Counting::default();
        let mut rest = &bytes[..];
        let mut step = usize::from(pieces) + 1;
        while !rest.is_empty() {
            let len = step.min(rest.len());
            match theirs.write(&rest[..len]) {
                Ok(sent) => rest = &rest[sent..],
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
            step = step * 3 % 4099 + 1;
            iface.progress(&mut seen, 1 + u32::from(pieces % 5));
            // Answers that nobody reads are part of the game; a full socket is not.
            drain(&mut theirs);
        }
        drop(theirs);
        while iface.is_open(index) || !iface.events.is_empty() {
            iface.progress(&mut seen, 7);
        }
        iface.disconnect(ep);
        iface.rkey_release(at.rkey);
        assert!(seen.bytes <= bytes.len(), "more was delivered than sent");
        seen.completed.sort_by_key(|token| token.0);
        let all = [Token(1), Token(2), Token(3), Token(4)];
        assert_eq!(seen.completed, all, "each request is answered once");
    });
}

fn drain(socket: &mut UnixStream) {
    let mut bytes = [0; 4096];
    while matches!(std::io::Read::read(socket, &mut bytes), Ok(some) if some > 0) {}
}

/// Bytes of an unauthenticated peer: in the decoders of the handshake, of addresses and of keys,
/// and to an interface that takes them for a client's or for a server's.
pub fn handshake(bytes: &[u8]) {
    let Some((&which, bytes)) = bytes.split_first() else { return };
    match which % 4 {
        0 => {
            if let Ok(hello) = Hello::decode(bytes) {
                assert_eq!(hello.encode()[..], *bytes);
            }
            if let Ok((challenge, mac)) = Challenge::decode(bytes) {
                assert_eq!([&challenge.encode()[..], mac].concat(), bytes);
            }
            if let Ok((front, mac, private)) = hello::decode_auth(bytes) {
                assert_eq!(hello::encode_auth(private)[..], *front);
                assert_eq!(mac.len() + private.len() + front.len(), bytes.len());
            }
            if let Ok((answer, (front, _, private))) = Answer::decode(bytes) {
                assert_eq!(answer.encode(private)[..], *front);
            }
        }
        1 => {
            // With the right check behind them, or no input would come beyond it.
            let whole = [bytes, &bowline_uct::fnv_32(bytes).to_le_bytes()].concat();
            if let Ok(address) = Address::parse(&whole) {
                assert_eq!(address.pack(), whole);
            }
            if let Some(key) = Packed::parse(&whole) {
                assert_eq!(key.pack()[..], whole);
            }
        }
        side => in_handshake(side == 2, &bytes[..bytes.len().min(MOST)]),
    }
}

fn in_handshake(server: bool, bytes: &[u8]) {
    with_bench(|bench| {
        let iface = &mut bench.iface;
        let (ours, mut theirs) = UnixStream::pair().expect("two sockets can be had");
        ours.set_nonblocking(true).expect("a socket can be set");
        theirs.set_nonblocking(true).expect("a socket can be set");
        let index = if server {
            let from = ([127, 0, 0, 1], 1).into();
            iface.add_handshake(Handshake::server(OwnedFd::from(ours), 0, from))
        } else {
            let nobody = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
            let peer = iface.begin(2, vec![nobody], Vec::new(), Purpose::Peer);
            let peer = peer.expect("there are numbers left");
            let (nonce, uid) = ([0; 32], iface.uid);
            let hello = Hello { nonce, uid, wanted: 2, attempt: 1, purpose: Purpose::Peer };
            let handshake = Handshake::client(OwnedFd::from(ours), peer, &hello);
            let index = iface.add_handshake(handshake);
            if let Some(connecting) = iface.peer_mut(peer).and_then(|p| p.connecting.as_mut()) {
                connecting.handshake = index;
            }
            index
        };
        let index = index.expect("a socket can be watched");
        let mut seen = Counting::default();
        for piece in bytes.chunks(50) {
            let _ = theirs.write(piece);
            iface.step_handshake(index);
            drain(&mut theirs);
        }
        drop(theirs);
        iface.step_handshake(index);
        iface.drop_handshake(index);
        for peer in iface.connecting.clone() {
            iface.fail(peer, PeerFailure::Died);
        }
        while iface.progress(&mut seen, 16) > 0 {}
        assert_eq!(seen.arrivals, 0, "a handshake has said something");
        assert_eq!(iface.open, 0, "a handshake was taken for a peer");
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Atomic, Frame, Status};
    use bowline_uct::AmId;
    use bowline_uct::conformance::harness::Random;

    /// A stream of every kind of frame, with the marks in place of address and handle.
    fn every_kind() -> Vec<u8> {
        let (key, address) = (u64::from_le_bytes(HANDLE), u64::from_le_bytes(ADDRESS));
        let done = Status::Done;
        let op = AtomicOp::Cswap { compare: 0, new: 9 };
        let width = AtomicWidth::W64;
        let mut all = vec![200];
        all.extend(Frame::am(AmId::new(3), &[1, 2, 3], 4).encode());
        all.extend(b"four");
        all.extend(Frame::put(key, address, 8).encode());
        all.extend([7; 8]);
        all.extend(Frame::put(key, address, 6000).encode());
        all.extend([8; 6000]);
        all.extend(Frame::put_notify(AmId::new(1), key, address, 1).encode());
        all.extend([0; 25]);
        all.extend(Frame::get(key, address, 0, 100).encode());
        all.extend(Frame::get(key, address, 1, 9000).encode());
        all.extend(Atomic { key, address, op, width, request: Some(2) }.encode());
        all.extend(Frame::flush(3).encode());
        all.extend(Frame::data(0, done, true, 8).encode());
        all.extend([5; 8]);
        all.extend(Frame::data(1, done, false, 8000).encode());
        all.extend([6; 8000]);
        all.extend(Frame::end(1, done).encode());
        all.extend(Frame::old(2, done, 1).encode());
        all.extend(Frame::flushed(3).encode());
        all.extend(Frame::bye().encode());
        all
    }

    #[test]
    fn streams_with_changed_bytes_do_no_harm() {
        let good = every_kind();
        frames(&good);
        let mut random = Random::new(91);
        for _ in 0..400 {
            let mut changed = good.clone();
            for _ in 0..=random.below(3) {
                // Most bytes are payload: headers are where it matters.
                let most = if random.below(2) == 0 { good.len() } else { 300 };
                let at = random.below(most);
                changed[at] = random.word() as u8;
            }
            changed.truncate(changed.len() - random.below(2) * random.below(changed.len()));
            frames(&changed);
        }
    }

    #[test]
    fn handshakes_with_changed_bytes_do_no_harm() {
        let hello = Hello { nonce: [1; 32], uid: 1, wanted: 2, attempt: 3, purpose: Purpose::Peer }
            .encode();
        let challenge = [&Challenge { nonce: [1; 32], uid: 2 }.encode()[..], &[0; 32]].concat();
        let mut random = Random::new(92);
        for round in 0..300 {
            for message in [&hello[..], &challenge] {
                let mut bytes = vec![(round % 4) as u8];
                bytes.extend_from_slice(message);
                let at = random.below(bytes.len());
                bytes[at] ^= 1 << random.below(8);
                handshake(&bytes);
            }
        }
    }
}
