//! A peer that asks for fragments, or sends some, as no correct one does. Each such message is damage, unless what it is about
//! has ended: then a fragment means nothing.

use super::*;

const LEN: u64 = 64;

/// A worker that has asked a forger for fragments of its message: with the receive, and its name on the wire.
fn asking() -> (Worker, Forger, RequestId, u64) {
    let network = Network::new(NetworkOptions::default());
    let victim = worker(&network, 0, &[("BOWLINE_RNDV_SCHEME", "copy")]);
    let mut forger = Forger::new(&network, &victim);
    let request = receive(&victim, Some(1), 5);
    let words = [77, LEN, 1];
    let offer: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
    forger.posts(&victim, RTS, tagged(0, 1, 5), &offer);
    forger.settle(&victim);
    let asked = forger.heard.0.iter().find(|(id, _)| *id == CTS).expect("it asks");
    assert_eq!(asked.1[0], 77);
    let name = asked.1[1];
    (victim, forger, request, name)
}

#[test]
fn fragments_that_fit_nowhere_are_damage() {
    // The offsets and lengths of what is sent.
    let sequences: [&[(u64, usize)]; 6] = [
        &[(8, 8)],
        &[(0, 65)],
        &[(0, 32), (0, 32)],
        &[(0, 32), (40, 24)],
        &[(0, 32), (32, 33)],
        &[(u64::MAX, 8)],
    ];
    for sequence in sequences {
        let (victim, mut forger, request, name) = asking();
        for &(offset, bytes) in sequence {
            forger.posts(&victim, FRAGMENT, [name, offset], &vec![1; bytes]);
        }
        forger.settle(&victim);
        ends_with(&victim, request, PeerFailure::Damaged.into());
        assert_eq!(forger.notices(), [1], "{sequence:?}");
    }
}

#[test]
fn fragments_for_a_receive_that_awaits_none_are_damage() {
    let (victim, mut forger, first, name) = asking();
    forger.posts(&victim, FRAGMENT, [name, 0], &[1; LEN as usize]);
    forger.settle(&victim);
    assert_eq!(victim.take(first).expect("it is complete").outcome, Ok(()));
    // Its place is the next one's, whose name differs: what is sent to the old name means nothing.
    let next = receive(&victim, Some(1), 6);
    forger.posts(&victim, FRAGMENT, [name, 0], &[1; LEN as usize]);
    forger.settle(&victim);
    assert!(!victim.is_complete(next));
    assert!(forger.notices().is_empty());
    // It names one that no message has met.
    let mut name = name;
    while forger.notices().is_empty() && name >> 32 < 64 {
        name += 1 << 32;
        forger.posts(&victim, FRAGMENT, [name, 0], &[1; LEN as usize]);
        forger.settle(&victim);
    }
    ends_with(&victim, next, OpError::MemberFailed { rank: 1 });
    assert_eq!(forger.notices(), [1]);
}

#[test]
fn fragments_behind_the_last_one_mean_nothing() {
    let (victim, mut forger, request, name) = asking();
    for (offset, bytes) in [(0, 32), (32, 0), (32, 32), (64, 0), (0, 64), (64, 8)] {
        forger.posts(&victim, FRAGMENT, [name, offset], &vec![1; bytes]);
    }
    forger.settle(&victim);
    let (status, bytes) = victim.take_with_buffer(request).expect("it is complete");
    assert_eq!((status.outcome, bytes), (Ok(()), Some(vec![1; LEN as usize])));
    assert!(forger.notices().is_empty());
}

/// A worker that has offered a forger a message: with the send, and its name on the wire.
fn offering() -> (Worker, Forger, RequestId, u64) {
    let network = Network::new(NetworkOptions::default());
    let victim = worker(&network, 0, &[("BOWLINE_RNDV_THRESHOLD", "0")]);
    let mut forger = Forger::new(&network, &victim);
    forger.settle(&victim);
    let ep = victim.connect(&forger.address).expect("it has introduced itself");
    let envelope = Envelope { space: 0, source: 0, tag: 5 };
    let buffer = SendBuf::owned(vec![1; LEN as usize]);
    let sent = victim.send(ep, envelope, buffer, SendMode::Standard);
    let Ok(Sent::Pending(request)) = sent else { panic!("it is not offered: {sent:?}") };
    forger.settle(&victim);
    let name = forger.heard.1;
    assert_ne!(name, 0, "no offer has come");
    (victim, forger, request, name)
}

#[test]
fn who_asks_for_fragments_as_nobody_does_is_damaged() {
    let whole = LEN.to_le_bytes();
    let more = (LEN + 1).to_le_bytes();
    type Question<'a> = (u64, &'a [u8]);
    let questions: [&[Question<'_>]; 5] = [
        &[(0, &more)],
        &[(0, &whole[..4])],
        &[(0, &[])],
        // Of a request that is not there.
        &[(1 << 40, &whole)],
        // Twice, which is also after the end.
        &[(0, &whole), (0, &whole)],
    ];
    for question in questions {
        let (victim, mut forger, request, name) = offering();
        for (other, wanted) in question {
            forger.posts(&victim, CTS, [name ^ other, 3], wanted);
        }
        forger.settle(&victim);
        let outcome = victim.take(request).expect("it has ended").outcome;
        let due = if question.len() > 1 { Ok(()) } else { Err(PeerFailure::Damaged.into()) };
        assert_eq!((outcome, forger.notices()), (due, vec![1]), "{question:?}");
    }
}

#[test]
fn a_part_of_a_message_may_be_asked_for() {
    for wanted in [0, 1, LEN] {
        let (victim, mut forger, request, name) = offering();
        forger.posts(&victim, CTS, [name, 3], &wanted.to_le_bytes());
        forger.settle(&victim);
        assert_eq!(victim.take(request).expect("it is complete").outcome, Ok(()));
        let of_fragments = forger.heard.0.iter().filter(|(id, _)| *id == FRAGMENT);
        assert_eq!(of_fragments.count(), usize::from(wanted > 0));
        assert!(forger.notices().is_empty());
    }
}
