//! A peer that breaks the protocol of receives from any source for which senders raise flags (`BOWLINE_ANY_SOURCE=flags`)
//! is rejected, be it the sender that was lent a receive or the receiver that asks for flags. No memory stays
//! open for it, and flags of others are raised, asked for and written as before.

use super::*;

// Kinds of messages: the first word of their payloads.
const ENABLE: u64 = 1;
const DISABLE: u64 = 2;
const FLAG: u64 = 3;
const ASK: u64 = 4;
const NOTHING: u64 = 5;
const WRITTEN: u64 = 6;

/// Most entries of a peer.
const ENTRIES: u64 = 32;

/// A receive from any source, of so many bytes.
const TAG: u64 = 98;
const LENGTH: u64 = 64;

const LOST: OpError = OpError::MemberFailed { rank: 1 };

/// A victim, a forger, which is rank 1, and one that keeps to the rules.
struct Three {
    network: Network,
    victim: Worker,
    forger: Forger,
    honest: Worker,
}

impl Three {
    fn new() -> Self {
        let flags = [("BOWLINE_ANY_SOURCE", "flags")];
        let network = Network::new(NetworkOptions::default());
        let victim = worker(&network, 0, &flags);
        let forger = Forger::new(&network, &victim);
        let honest = worker(&network, 2, &flags);
        let mut three = Self { network, victim, forger, honest };
        for (from, to, source) in
            [(&three.honest, &three.victim, 2), (&three.victim, &three.honest, 0)]
        {
            let ep = from.connect(&to.address()).expect("it can be reached");
            let envelope = Envelope { space: 0, source, tag: 60 };
            let sent = from.send(ep, envelope, SendBuf::empty(), SendMode::Standard);
            assert!(matches!(sent, Ok(Sent::Done)), "they know each other from then on: {sent:?}");
        }
        three.settle();
        for (worker, source) in [(&three.victim, 2), (&three.honest, 0)] {
            let status = worker.take(receive(worker, Some(source), 60)).expect("it was here");
            assert_eq!(status.outcome, Ok(()));
        }
        three
    }

    fn settle(&mut self) {
        for _ in 0..500 {
            self.honest.progress();
            self.forger.step(&self.victim);
        }
    }

    /// The forger says something of flags, with the words of a message of its own with `tag`.
    fn says(&mut self, tag: u64, words: &[u64]) {
        let payload: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.forger.posts(&self.victim, ANY, tagged(0, 1, tag), &payload);
        self.settle();
    }

    /// The last message of a kind that the forger has heard.
    #[track_caller]
    fn heard(&self, kind: u64) -> &[u64] {
        let heard = &self.forger.heard.2;
        heard.iter().rfind(|words| words[0] == kind).expect("the victim says so")
    }

    /// A receive of the victim from any source that is lent to the forger, and its name.
    #[track_caller]
    fn lent(&mut self) -> (RequestId, u64) {
        let posted = receive(&self.victim, None, TAG);
        self.settle();
        let entry = self.heard(ENABLE)[1];
        let asked = self.victim.counters().any_asked;
        self.says(TAG, &[FLAG, entry]);
        assert_eq!(self.victim.counters().any_asked, asked + 1, "its flag means nothing");
        (posted, self.heard(ASK)[2])
    }

    /// A send of the victim to the forger, which waits for its receive.
    #[track_caller]
    fn held(&mut self, tag: u64) -> RequestId {
        let ep = self.victim.connect(&self.forger.address).expect("it lives");
        let envelope = Envelope { space: 0, source: 0, tag };
        let bytes = SendBuf::owned(vec![3; 100]);
        let sent = self.victim.send(ep, envelope, bytes, SendMode::Standard).expect("it lives");
        let Sent::Pending(sent) = sent else { panic!("nothing waits for the flag") };
        self.settle();
        assert_eq!(self.heard(FLAG)[0], FLAG);
        assert!(!self.victim.is_complete(sent), "nobody has asked for it");
        sent
    }

    /// The forger has done nothing wrong so far.
    #[track_caller]
    fn is_served(&self) {
        assert!(self.victim.failures().is_empty() && self.forger.notices().is_empty());
    }

    /// The forger is rejected, and nothing is open for it. The other one's flags work in both directions.
    #[track_caller]
    fn is_rejected(&mut self, what: &str) {
        assert_eq!(self.forger.notices(), [1], "{what}");
        assert_eq!((self.victim.failures(), self.victim.counters().peers_failed), (vec![1], 1));
        let open = |three: &Self| [0, 1, 2].map(|at| three.network.memories(at));
        assert_eq!(open(self), [0; 3], "{what}: memory left open");
        for (rank, tag) in [(0, 50), (2, 51)] {
            let ranks = [&self.victim, &self.honest];
            let [to, from] = if rank == 0 { ranks } else { [ranks[1], ranks[0]] };
            to.acknowledge_failures(0);
            let (posted, asked) = (receive(to, None, tag), to.counters().any_asked);
            let settle = || {
                for _ in 0..500 {
                    ranks.iter().for_each(|worker| _ = worker.progress());
                    self.network.advance();
                }
            };
            settle();
            let source = 2 - rank;
            let ep = from.connect(&to.address()).expect("it can be reached");
            let envelope = Envelope { space: 0, source, tag };
            let bytes = SendBuf::owned(vec![tag as u8; 60]);
            let sent = from.send(ep, envelope, bytes, SendMode::Standard).expect("it lives");
            settle();
            if let Sent::Pending(sent) = sent {
                assert_eq!(from.take(sent).expect("it is written").outcome, Ok(()));
            }
            let (status, bytes) = to.take_with_buffer(posted).expect("it is written");
            assert_eq!((status.outcome, status.source, status.length), (Ok(()), source, 60));
            assert_eq!(bytes.expect("it was owned")[..60], [tag as u8; 60]);
            assert_eq!(to.counters().any_asked, asked + 1, "{what}: flags are not used any more");
        }
        assert_eq!(open(self), [0; 3], "{what}: memory left open");
    }

    /// A receive of the victim ends, and its user has the memory back.
    #[track_caller]
    fn is_lost(&self, receive: RequestId) {
        let (status, bytes) = self.victim.take_with_buffer(receive).expect("it is over");
        assert_eq!(status.outcome, Err(LOST));
        assert_eq!(bytes.expect("it was owned").len() as u64, LENGTH);
    }
}

fn answers(receive: u64) -> [Vec<u64>; 2] {
    [vec![NOTHING, receive], vec![WRITTEN, receive, 8]]
}

#[test]
fn answers_for_a_receive_that_was_never_lent_are_damage() {
    for receive in [0, 1, 1 << 32, u64::MAX] {
        for words in answers(receive) {
            let mut three = Three::new();
            let anyone = super::receive(&three.victim, None, TAG);
            three.says(TAG, &words);
            three.is_lost(anyone);
            three.is_rejected(&format!("{words:?}"));
        }
    }
}

/// It has been answered before, in either way.
#[test]
fn answers_for_a_receive_that_is_lent_no_more_are_damage() {
    for at in 0..2 {
        for again in 0..2 {
            let mut three = Three::new();
            let (posted, name) = three.lent();
            three.says(TAG, &answers(name)[at]);
            three.is_served();
            assert_eq!(three.victim.is_complete(posted), at == 1);
            three.says(TAG, &answers(name)[again]);
            if at == 0 {
                three.is_lost(posted);
            } else {
                let status = three.victim.take(posted).expect("it was written");
                assert_eq!((status.outcome, status.source, status.length), (Ok(()), 1, 8));
            }
            three.is_rejected(&format!("answers {at} and {again}"));
        }
    }
}

/// A forger answers in the place of another one, to whom it was lent: that one's answer is still awaited, since it may be
/// writing, and its message is kept.
#[test]
fn answers_for_a_receive_that_is_lent_to_another_are_damage() {
    for at in 0..2 {
        let flags = [("BOWLINE_ANY_SOURCE", "flags")];
        let network = Network::new(NetworkOptions::default());
        let victim = worker(&network, 0, &flags);
        let [mut forger, mut other] = [1, 2].map(|rank| Forger::of_rank(rank, &network, &victim));
        let settle = |forger: &mut Forger, other: &mut Forger| {
            for _ in 0..500 {
                forger.step(&victim);
                other.step(&victim);
            }
        };
        let bytes = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect();
        settle(&mut forger, &mut other);
        let posted = receive(&victim, None, TAG);
        settle(&mut forger, &mut other);
        let heard = |forger: &Forger, kind| {
            let of_kind = forger.heard.2.iter().rfind(|words| words[0] == kind);
            of_kind.expect("the victim says so").clone()
        };
        let raised: Vec<u8> = bytes(&[FLAG, heard(&other, ENABLE)[1]]);
        other.posts(&victim, ANY, tagged(0, 2, TAG), &raised);
        settle(&mut forger, &mut other);
        let name = heard(&other, ASK)[2];
        let forged: Vec<u8> = bytes(&answers(name)[at]);
        forger.posts(&victim, ANY, tagged(0, 1, TAG), &forged);
        settle(&mut forger, &mut other);
        assert_eq!((forger.notices(), other.notices()), (vec![1], vec![]));
        assert!(!victim.is_complete(posted), "rank 2 may be writing");
        let written: Vec<u8> = bytes(&[WRITTEN, name, LENGTH]);
        other.posts(&victim, ANY, tagged(0, 2, TAG), &written);
        settle(&mut forger, &mut other);
        let (status, memory) = victim.take_with_buffer(posted).expect("it has its answer");
        assert_eq!(status.outcome, Err(LOST));
        assert_eq!(memory.expect("it was owned").len() as u64, LENGTH);
        let kept = receive(&victim, Some(2), TAG);
        let status = victim.take(kept).expect("it was here");
        assert_eq!((status.outcome, status.length), (Ok(()), LENGTH));
        assert_eq!((victim.failures(), other.notices()), (vec![1], vec![]));
        assert_eq!([0, 1, 2].map(|at| network.memories(at)), [0; 3], "memory left open");
    }
}

#[test]
fn a_message_longer_than_its_lent_receive_is_damage() {
    for length in [1, LENGTH] {
        let mut three = Three::new();
        let (posted, name) = three.lent();
        three.says(TAG, &[WRITTEN, name, length]);
        three.is_served();
        let status = three.victim.take(posted).expect("it is written");
        assert_eq!((status.outcome, status.length), (Ok(()), length));
    }
    for length in [0, LENGTH + 1, 1 << 32, u64::MAX] {
        let mut three = Three::new();
        let (posted, name) = three.lent();
        three.says(TAG, &[WRITTEN, name, length]);
        three.is_lost(posted);
        three.is_rejected(&format!("{length} bytes"));
    }
}

/// A message has met the lent receive, and is kept until the answer, which then is damage: nobody writes to the receive any more,
/// which has the message that had come before.
#[test]
fn a_lent_receive_that_was_met_has_its_message_in_spite_of_damage() {
    let mut three = Three::new();
    let (posted, name) = three.lent();
    three.forger.posts(&three.victim, EAGER, tagged(0, 1, TAG), &[1; 8]);
    three.settle();
    three.is_served();
    assert!(!three.victim.is_complete(posted), "it may be written");
    three.says(TAG, &[WRITTEN, name, LENGTH + 1]);
    let (status, bytes) = three.victim.take_with_buffer(posted).expect("it has its message");
    assert_eq!((status.outcome, status.source, status.length), (Ok(()), 1, 8));
    assert_eq!(bytes.expect("it was owned")[..8], [1; 8]);
    three.is_rejected("a message that is too long");
}

/// A receiver enables an entry that it has enabled. One that it has disabled in between may be enabled again.
#[test]
fn an_entry_that_is_enabled_twice_is_damage() {
    let mut three = Three::new();
    for words in [&[ENABLE, 7, u64::MAX, 1][..], &[DISABLE, 7], &[ENABLE, 7, u64::MAX, 1]] {
        three.says(TAG, words);
    }
    three.is_served();
    let anyone = receive(&three.victim, None, TAG);
    let sent = three.held(TAG);
    three.says(TAG + 1, &[ENABLE, 7, u64::MAX, 1]);
    three.is_lost(anyone);
    ends_with(&three.victim, sent, OpError::PeerFailed(PeerFailure::Damaged));
    three.is_rejected("an entry twice");
}

#[test]
fn an_entry_beyond_the_table_is_damage() {
    let mut three = Three::new();
    for entry in (0..ENTRIES).chain([ENTRIES]) {
        if entry == ENTRIES {
            three.says(TAG, &[DISABLE, 3]);
        }
        three.says(TAG + entry, &[ENABLE, entry, u64::MAX, 1]);
    }
    three.is_served();
    let anyone = receive(&three.victim, None, TAG);
    let sent = three.held(TAG + ENTRIES);
    three.says(TAG, &[ENABLE, ENTRIES + 1, u64::MAX, 1]);
    three.is_lost(anyone);
    ends_with(&three.victim, sent, OpError::PeerFailed(PeerFailure::Damaged));
    three.is_rejected("an entry too many");
}
