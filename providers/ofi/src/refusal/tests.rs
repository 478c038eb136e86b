//! Who does not know the secret gets an error, and nothing of it stays.

use bowline_uct::conformance::Watchdog;
use bowline_uct::{
    AmId, Arrival, EpId, Iface as _, PeerFailure, PostError, Secret, Sink, Source, Token, Verdict,
};

use super::AT_ONCE;
use crate::net::Piece;
use crate::wire::{ACTIVE, Header, Kind, UNNUMBERED, greeting};
use crate::{OfiIface, OfiOptions};

#[derive(Default)]
struct Seen {
    messages: usize,
    failed: Vec<PeerFailure>,
}

impl Sink for Seen {
    fn am(&mut self, _: Arrival<'_>) -> Verdict {
        self.messages += 1;
        Verdict::Consumed
    }
    fn completed(&mut self, _: Token, _: Result<u64, PeerFailure>) {}
    fn writable(&mut self, _: EpId) {}
    fn failed(&mut self, _: Option<Source>, _: Option<EpId>, how: PeerFailure) {
        self.failed.push(how);
    }
}

struct Side {
    iface: OfiIface,
    seen: Seen,
}

impl Side {
    fn open(provider: &str, secret: u8) -> Option<Self> {
        let options = OfiOptions {
            provider: Some(provider.to_owned()),
            secret: Secret::new([secret; 32]),
            ..OfiOptions::default()
        };
        match OfiIface::open(options) {
            Ok(iface) => Some(Self { iface, seen: Seen::default() }),
            Err(error) => {
                println!("secrets over {provider}: not run: {error}");
                None
            }
        }
    }

    fn progress(&mut self) {
        self.iface.progress(&mut self.seen, 16);
    }

    fn unknown_senders(&self) -> u64 {
        use bowline_base::counters::CounterGroup as _;
        self.iface.counters().snapshot().value("unknown_senders").expect("it is counted")
    }
}

const PROVIDERS: [&str; 3] = ["tcp", "net", "shm"];
const ID: AmId = AmId::new(3);

/// Two that know the same secret talk.
fn talk(a: &mut Side, b: &mut Side) {
    let ep = a.iface.connect(&b.iface.address()).expect("it is there");
    let before = b.seen.messages;
    while a.iface.am_short(ep, ID, &[0; 3], b"member") == Err(PostError::NoResource) {
        a.progress();
    }
    while b.seen.messages == before {
        a.progress();
        b.progress();
    }
}

#[test]
fn another_secret_is_an_error_of_the_side_that_connects() {
    let _watchdog = Watchdog::start("ofi", "another_secret_is_an_error_of_the_side_that_connects");
    for provider in PROVIDERS {
        let Some(mut a) = Side::open(provider, 1) else { continue };
        let mut outsider = Side::open(provider, 2).expect("a second one");
        let ep = outsider.iface.connect(&a.iface.address()).expect("it begins");
        let _ = outsider.iface.am_short(ep, ID, &[0; 3], b"for the job only");
        while outsider.seen.failed.is_empty() {
            a.progress();
            outsider.progress();
        }
        assert_eq!(outsider.seen.failed, [PeerFailure::Refused], "{provider}");
        let late = outsider.iface.am_short(ep, ID, &[0; 3], b"late");
        assert_eq!(late, Err(PostError::PeerFailed), "{provider}");
        assert_eq!(a.seen.messages, 0, "{provider}");
        assert!(a.iface.peers.is_empty(), "{provider}: an outsider became a peer");
        assert!(a.unknown_senders() > 0, "{provider}");
        let mut b = Side::open(provider, 1).expect("a third one");
        talk(&mut a, &mut b);
        talk(&mut b, &mut a);
    }
}

/// Each wants the other: both hear of it, and neither takes the other for a member.
#[test]
fn both_sides_of_a_pair_with_two_secrets_get_an_error() {
    let _watchdog = Watchdog::start("ofi", "both_sides_of_a_pair_with_two_secrets_get_an_error");
    for provider in PROVIDERS {
        let Some(mut a) = Side::open(provider, 1) else { continue };
        let mut b = Side::open(provider, 2).expect("a second one");
        a.iface.connect(&b.iface.address()).expect("it begins");
        b.iface.connect(&a.iface.address()).expect("it begins");
        while a.seen.failed.is_empty() || b.seen.failed.is_empty() {
            a.progress();
            b.progress();
        }
        assert_eq!(a.seen.failed, [PeerFailure::Refused], "{provider}");
        assert_eq!(b.seen.failed, [PeerFailure::Refused], "{provider}");
    }
}

/// Somebody who found the port: greetings in many names, a forged refusal, and messages in the name of a
/// member.
#[test]
fn an_outsider_at_the_port_leaves_nothing() {
    let _watchdog = Watchdog::start("ofi", "an_outsider_at_the_port_leaves_nothing");
    for provider in ["tcp", "net"] {
        let Some(mut a) = Side::open(provider, 1) else { continue };
        let mut member = Side::open(provider, 1).expect("a second one");
        talk(&mut member, &mut a);
        let (peers, failed) = (a.iface.peers.len(), a.seen.failed.len());
        let mut outsider = Side::open(provider, 2).expect("a third one");
        let to = outsider.iface.net.insert(&a.iface.address.name).expect("a good name");
        let secret = Secret::new([2; 32]);
        let mut messages = Vec::new();
        let own = a.iface.address.instance;
        for number in 1..100_u64 {
            let mut address = outsider.iface.address.clone();
            address.instance = number;
            // To us, as one would say who has our address, and to somebody else.
            let to = if number % 2 == 0 { own } else { own ^ number };
            messages.push(greeting(&secret, (number, &address.pack()), to, 0));
            // A number that a member has, with a guessed stamp; and one that nobody has.
            for source in [0, 77] {
                let stamp = number as u32;
                let header = Header { kind: Kind::Active, id: 3, source, stamp, taken: 0 };
                messages.push([&header.pack()[..], &[0; ACTIVE]].concat());
            }
            messages.push(crate::wire::refusal(member.iface.address.instance, number).to_vec());
            messages.push(
                Header { kind: Kind::Close, id: 0, source: UNNUMBERED, stamp: 0, taken: 0 }
                    .pack()
                    .into(),
            );
        }
        let (before, heard, count) = (a.unknown_senders(), a.seen.messages, messages.len() as u64);
        for message in &messages {
            let start = message.as_ptr().cast_mut();
            let piece = Piece { start, len: message.len(), desc: std::ptr::null_mut() };
            // SAFETY: the messages outlive the loop below, which waits for the last of them; libfabric
            // only reads them.
            while unsafe { outsider.iface.net.send(to, piece, 0) }.is_err() {
                outsider.progress();
                a.progress();
            }
        }
        while a.unknown_senders() < before + count {
            outsider.progress();
            a.progress();
            assert!(a.iface.refusals.going.len() <= AT_ONCE, "{provider}");
        }
        assert_eq!(a.iface.peers.len(), peers, "{provider}: an outsider became a peer");
        assert_eq!(a.seen.messages, heard, "{provider}: an outsider was heard");
        assert_eq!(a.seen.failed.len(), failed, "{provider}: an outsider ended a member");
        talk(&mut member, &mut a);
        talk(&mut a, &mut member);
    }
}
