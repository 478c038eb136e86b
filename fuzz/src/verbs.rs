//! What the verbs transport reads of its peers: addresses, keys, the datagrams by which
//! connections are agreed on, and the headers of messages.

use std::io;
use std::time::{Duration, Instant};

use bowline_base::buffer::RecvBuf;
use bowline_verbs::decoders::datagram::{Datagram, PairEnd};
use bowline_verbs::decoders::head::DatagramHead;
use bowline_verbs::decoders::table::{Pairs, PeerTable, TableEvent};
use bowline_verbs::decoders::window::{Incoming, Outgoing, ReceiveOrder};
use bowline_verbs::decoders::{Address, HEADER_BYTES, PackedKey, Parsed, parse};

/// Addresses and keys: what was read is written and read again.
pub(crate) fn address(bytes: &[u8]) {
    if let Ok(address) = Address::decode(bytes) {
        assert_eq!(address.encode(), bytes);
    }
    if let Ok(key) = PackedKey::decode(bytes) {
        assert_eq!(key.encode(), bytes);
        assert!(key.start.checked_add(key.len).is_some());
    }
}

/// Pairs are numbers. Now and then there are no more.
struct Numbers(u32);

impl Pairs for Numbers {
    type Pair = u32;

    fn make(&mut self, _: &Address) -> io::Result<(u32, PairEnd)> {
        self.0 += 1;
        if self.0.is_multiple_of(5) {
            return Err(io::Error::other("no more"));
        }
        Ok((self.0, PairEnd { pair: self.0, psn: 1 }))
    }

    fn connect(&mut self, _: &mut u32, _: PairEnd, _: &Address, theirs: PairEnd) -> io::Result<()> {
        if theirs.psn.is_multiple_of(7) { Err(io::Error::other("refused")) } else { Ok(()) }
    }
}

/// A sequence of datagrams (a length byte before each) to an interface that also asks by itself:
/// there are never more peers than allowed, and a pair is reported at most once.
pub(crate) fn control(bytes: &[u8]) {
    const MOST: usize = 4;
    let mut rest = bytes;
    let Some((first, _)) = split(rest) else { return };
    // The interface is whom the first datagram is for, at an address like its sender's.
    let Ok(first) = Datagram::decode(first) else { return };
    let own = Address { uid: first.to, ..first.from };
    let mut table: PeerTable<u32> = PeerTable::new(own, Duration::from_secs(1), MOST, true);
    let (mut pairs, mut now) = (Numbers(0), Instant::now());
    let mut up = Vec::new();
    while let Some((bytes, behind)) = split(rest) {
        rest = behind;
        now += Duration::from_millis(bytes.len() as u64);
        if let Ok(datagram) = Datagram::decode(bytes) {
            assert_eq!(datagram.encode(), bytes);
            table.arrived(&datagram, now, &mut pairs);
            if bytes.len() % 3 == 0 {
                table.watch(&datagram.from, now);
                table.ask(&datagram.from, now, &mut pairs);
            }
        }
        table.tick(now);
        for event in table.events.drain(..) {
            if let TableEvent::Up { pair, .. } = event {
                assert!(!up.contains(&pair), "a pair came up twice");
                up.push(pair);
            }
        }
        for (to, datagram) in table.outgoing.drain(..) {
            assert_eq!(to.uid, datagram.to);
            assert!(Datagram::decode(&datagram.encode()).is_ok());
        }
    }
}

fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(*length))
}

/// Headers of messages, and acknowledgements in any order: numbers are taken once and in order,
/// and nothing is freed that was not sent.
pub(crate) fn messages(bytes: &[u8]) {
    let mut buffer = RecvBuf::owned(bytes.to_vec());
    if let Some(Parsed::Message { payload, .. }) = parse(buffer.view()) {
        assert_eq!(payload + HEADER_BYTES, bytes.len());
    }
    let mut outgoing = Outgoing::new(16);
    let mut incoming = Incoming::default();
    let (mut sent, mut freed, mut taken) = (0_u32, 0_u32, 0_u32);
    for chunk in bytes.chunks(24) {
        if outgoing.has_space() {
            outgoing.sent(sent);
            sent += 1;
        }
        let Some(head) = DatagramHead::decode(chunk) else { continue };
        assert_eq!(head.encode(), chunk);
        outgoing.share(head.share);
        assert!((1..=16).contains(&outgoing.allowed()));
        outgoing.acknowledged(head.expected, Instant::now, |number| {
            assert_eq!(number, freed);
            freed += 1;
        });
        assert!(freed <= sent);
        if incoming.order(head.sequence) == ReceiveOrder::Next {
            assert_eq!(head.sequence, taken);
            incoming.taken();
            taken += 1;
        } else {
            incoming.dropped(head.sequence);
        }
    }
}
