//! An interface that is connected to itself: operations of the device on its own memory, messages,
//! and the life of such a connection.

use std::time::{Duration, Instant};

use crate::common::{Seen, has_device, options};
use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_uct::conformance::Watchdog;
use bowline_uct::{
    AmId, AtomicOp, AtomicWidth, EpId, Iface, LocalSlice, MemHandle, MemoryDomain, OneSided,
    OpenError, PeerFailure, PostError, Posted, RemoteSlice, Token,
};
use bowline_verbs::{ConnectWhen, VerbsIface, VerbsMode, VerbsOptions};

const ID: AmId = AmId::new(3);

/// An interface with an endpoint to itself and memory.
struct Own {
    iface: VerbsIface,
    ep: EpId,
    seen: Seen,
    memory: MemHandle,
    at: RemoteSlice,
}

impl Own {
    fn open(change: impl Fn(&mut VerbsOptions)) -> Self {
        let mut options = options(0);
        change(&mut options);
        let mut iface = VerbsIface::open(&options).expect("there is a device");
        let ep = iface.connect(&iface.address()).expect("it reaches itself");
        let memory = iface.mem_alloc(1 << 16).expect("there is memory");
        let address = iface.mem_view(memory).expect("it is held").as_ptr() as u64;
        let packed = iface.rkey_pack(memory).expect("it has a key");
        let rkey = iface.rkey_unpack(ep, &packed).expect("a key of its own opens");
        let at = RemoteSlice { address, rkey };
        Self { iface, ep, seen: Seen::default(), memory, at }
    }

    fn until(&mut self, mut done: impl FnMut(&Self) -> bool) {
        while !done(self) {
            if self.iface.progress(&mut self.seen, 16) == 0 {
                std::thread::yield_now();
            }
        }
    }

    /// The answer to `token`, when it comes.
    fn answer(&mut self, token: Token) -> Result<u64, PeerFailure> {
        let found =
            |own: &Self| own.seen.completed.iter().find(|(known, _)| *known == token).copied();
        self.until(|own| found(own).is_some());
        found(self).expect("waited for").1
    }

    fn fetch(&mut self, op: AtomicOp, token: u64) -> Result<u64, PeerFailure> {
        let token = Token(token);
        match self.iface.atomic(self.ep, op, AtomicWidth::W64, self.at, token) {
            Ok(Some(old)) => Ok(old),
            Ok(None) => self.answer(token),
            Err(error) => panic!("{op:?} was refused: {error}"),
        }
    }

    fn flush(&mut self, token: u64) {
        match self.iface.flush(self.ep, Token(token)).expect("the endpoint is well") {
            Posted::Done => {}
            Posted::InFlight => assert_eq!(self.answer(Token(token)), Ok(0)),
        }
    }

    fn bytes(&self, len: usize) -> Vec<u8> {
        let view = self.iface.mem_view(self.memory).expect("it is held");
        view.slice(0, len).expect("as many are there").to_vec()
    }
}

fn both_ways(test: &'static str, check: impl Fn(ConnectWhen)) {
    if has_device(test) {
        let _watchdog = Watchdog::start("verbs", test);
        check(ConnectWhen::AtOnce);
        check(ConnectWhen::FirstUse);
    }
}

/// Puts, gets, atomics and flushes reach the own memory.
#[test]
fn operations_reach_the_own_memory() {
    both_ways("operations_reach_the_own_memory", |when| {
        let mut own = Own::open(|options| options.connect = when);
        // The first operation of all is an atomic: nothing has to be tried again.
        assert_eq!(own.fetch(AtomicOp::Add(5), 1), Ok(0));
        assert_eq!(own.fetch(AtomicOp::Swap(9), 2), Ok(5));
        assert_eq!(own.fetch(AtomicOp::Cswap { compare: 9, new: 11 }, 3), Ok(9));
        assert_eq!(own.bytes(8), 11_u64.to_ne_bytes());
        own.iface.put_short(own.ep, &[7; 16], own.at).expect("there is space");
        own.flush(4);
        assert_eq!(own.bytes(17), [&[7; 16][..], &[0]].concat());
        let fill = &mut |space: bowline_base::view::View<'_>| space.copy_in(&[8; 3000]);
        assert_eq!(own.iface.put_bcopy(own.ep, 3000, fill, own.at), Ok(3000));
        own.flush(5);
        assert_eq!(own.bytes(3001), [&[8; 3000][..], &[0]].concat());
        let lent = SendBuf::owned((0..1 << 16).map(|byte: u32| byte as u8).collect());
        // SAFETY: the buffer is kept, and left alone, until the operation has ended.
        let from = unsafe { LocalSlice::of_send(&lent, 0, lent.len()) }.expect("all of it");
        let posted = own.iface.put_zcopy(own.ep, &[from], own.at, Token(6));
        assert_eq!(posted, Ok(Posted::InFlight));
        assert_eq!(own.answer(Token(6)), Ok(0));
        own.flush(7);
        let mut back = RecvBuf::owned(vec![0; 1 << 16]);
        // SAFETY: the buffer is kept, and left alone, until the operation has ended.
        let to = unsafe { LocalSlice::of_recv(&mut back, 0, 1 << 16) }.expect("all of it");
        let posted = own.iface.get_zcopy(own.ep, &[to], own.at, Token(8));
        assert_eq!(posted, Ok(Posted::InFlight));
        assert_eq!(own.answer(Token(8)), Ok(0));
        let back = back.into_owned().expect("it was owned");
        assert!(back.iter().enumerate().all(|(place, byte)| *byte == place as u8));
        assert!(own.seen.failed.is_empty() && own.seen.messages.is_empty());
    });
}

/// Messages arrive, in order, under the number that the own address has.
#[test]
fn messages_come_back() {
    const MESSAGES: u64 = 1000;
    both_ways("messages_come_back", |when| {
        let mut own = Own::open(|options| options.connect = when);
        assert!(own.iface.source_of(&own.iface.address()).is_some());
        for number in 0..MESSAGES {
            // Far more than there are buffers: who refuses makes space by progress.
            let mut seen = std::mem::take(&mut own.seen);
            while let Err(error) = own.iface.am_short(own.ep, ID, &[number, 0, 0], b"to myself") {
                assert_eq!(error, PostError::NoResource);
                own.iface.progress(&mut seen, 16);
            }
            own.seen = seen;
        }
        own.until(|own| own.seen.messages.len() as u64 == MESSAGES);
        for (number, (id, header, payload)) in own.seen.messages.iter().enumerate() {
            let expected = (ID, [number as u64, 0, 0], &b"to myself"[..]);
            assert_eq!((*id, *header, &payload[..]), expected);
        }
        assert!(own.seen.failed.is_empty());
    });
}

/// The connection outlives its endpoint, and silence longer than any time-out.
#[test]
fn it_stays_when_the_endpoint_is_closed_and_while_nothing_is_said() {
    both_ways("it_stays_when_the_endpoint_is_closed_and_while_nothing_is_said", |when| {
        let timeout = Duration::from_millis(400);
        let mut own = Own::open(|options| {
            options.connect = when;
            options.peer_timeout = timeout;
        });
        assert_eq!(own.fetch(AtomicOp::Add(1), 1), Ok(0));
        own.iface.disconnect(own.ep);
        let refused = own.iface.flush(own.ep, Token(2));
        assert_eq!(refused, Err(PostError::BadEndpoint));
        let address = own.iface.address();
        own.ep = own.iface.connect(&address).expect("it reaches itself");
        assert_eq!(own.iface.connect(&address).expect("it reaches itself"), own.ep);
        let until = Instant::now() + 4 * timeout;
        own.until(|_| Instant::now() >= until);
        assert_eq!(own.fetch(AtomicOp::Add(1), 3), Ok(1));
        assert!(own.seen.failed.is_empty(), "{:?}", own.seen.failed);
        let VerbsIface::Rc(iface) = &own.iface else { panic!("of another mode") };
        assert_eq!(iface.counters().connections, 1);
    });
}

/// A withdrawn key breaks this connection as any other; a new one works, and a peer elsewhere
/// notices nothing.
#[test]
fn a_broken_one_is_made_anew() {
    both_ways("a_broken_one_is_made_anew", |when| {
        let mut own = Own::open(|options| options.connect = when);
        let other = own.iface.mem_register(RecvBuf::owned(vec![0; 4096])).expect("it registers");
        let address = own.iface.mem_view(other).expect("it is held").as_ptr() as u64;
        let packed = own.iface.rkey_pack(other).expect("it has a key");
        let rkey = own.iface.rkey_unpack(own.ep, &packed).expect("a whole key opens");
        let back = own.iface.mem_release(other).expect("it was held").expect("it was registered");
        let to = RemoteSlice { address, rkey };
        // A message before it arrives, and is handed out before the failure is reported.
        own.iface.am_short(own.ep, ID, &[1, 2, 3], b"before").expect("there is space");
        while own.iface.put_short(own.ep, &[7; 8], to) == Err(PostError::NoResource) {
            own.iface.progress(&mut own.seen, 16);
        }
        assert_eq!(own.iface.flush(own.ep, Token(1)), Ok(Posted::InFlight));
        assert_eq!(own.answer(Token(1)), Err(PeerFailure::Refused));
        own.until(|own| !own.seen.failed.is_empty());
        assert_eq!(own.seen.failed, [PeerFailure::Refused]);
        assert_eq!(own.seen.messages, [(ID, [1, 2, 3], b"before".to_vec())]);
        assert_eq!(back.into_owned(), Some(vec![0; 4096]), "written nevertheless");
        assert_eq!(own.iface.put_short(own.ep, &[7; 8], own.at), Err(PostError::PeerFailed));
        own.iface.disconnect(own.ep);
        own.ep = own.iface.connect(&own.iface.address()).expect("it reaches itself");
        assert_eq!(own.fetch(AtomicOp::Add(3), 2), Ok(0));
        // Ended from here, and closed before that was reported: it is not reported to the new endpoint.
        own.iface.invalidate(own.ep);
        own.iface.disconnect(own.ep);
        own.ep = own.iface.connect(&own.iface.address()).expect("it reaches itself");
        assert_eq!(own.fetch(AtomicOp::Add(3), 3), Ok(3));
        assert_eq!(own.seen.failed.len(), 1, "{:?}", own.seen.failed);
    });
}

/// Closing waits for what is under way and for nothing else, also when messages lie unread.
#[test]
fn it_closes_at_once() {
    both_ways("it_closes_at_once", |when| {
        let mut own = Own::open(|options| {
            options.connect = when;
            options.receive_buffers = 16;
            // Longer than the watchdog waits: a wait for it is a hang.
            options.peer_timeout = Duration::from_secs(600);
        });
        let mut sent = 0;
        // More than there are receive buffers, as long as requests have space.
        while sent < 500 && own.iface.am_short(own.ep, ID, &[sent, 0, 0], b"unread").is_ok() {
            sent += 1;
        }
        assert!(sent > 0);
        own.iface.put_short(own.ep, &[7; 16], own.at).ok();
        drop(own);
    });
}

/// For messages to oneself there are better transports, so the interface does not offer itself; over
/// datagrams there is nothing to connect for.
#[test]
fn it_is_not_offered() {
    if !has_device("it_is_not_offered") {
        return;
    }
    for mode in [VerbsMode::Rc, VerbsMode::Ud] {
        let mut options = options(0);
        options.mode = mode;
        let mut iface = VerbsIface::open(&options).expect("there is a device");
        let address = iface.address();
        let reason = iface.reachable(&address).expect_err("it is the own address").reason;
        assert!(reason.contains("own"), "{reason}");
        match (mode, iface.connect(&address)) {
            (VerbsMode::Rc, Ok(_)) => {}
            (VerbsMode::Ud, Err(OpenError::Unreachable(_))) => {}
            (_, answer) => panic!("{mode:?}: {answer:?}"),
        }
    }
}
