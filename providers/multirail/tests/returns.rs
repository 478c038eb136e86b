//! Peers that end and come back under new names: the interface keeps none of those that are gone. And how the end of
//! one is reported of which its paths say different things.

use bowline_multirail::MultiRail;
use bowline_sim::{Network, NetworkOptions};
use bowline_uct::{AmId, Arrival, EpId, Iface, PeerFailure, Sink, Source, Token, Verdict};

use super::{advance, options, rails};

/// Sources of what arrived, and failures.
#[derive(Default)]
struct Seen {
    sources: Vec<Source>,
    failed: Vec<(Option<Source>, Option<EpId>)>,
    how: Vec<PeerFailure>,
}

impl Sink for Seen {
    fn am(&mut self, arrival: Arrival<'_>) -> Verdict {
        self.sources.push(arrival.source);
        Verdict::Consumed
    }
    fn completed(&mut self, _: Token, _: Result<u64, PeerFailure>) {}
    fn writable(&mut self, _: EpId) {}
    fn failed(&mut self, source: Option<Source>, ep: Option<EpId>, how: PeerFailure) {
        self.failed.push((source, ep));
        self.how.push(how);
    }
}

/// Lets everybody make progress until nothing is under way.
fn settle(
    networks: &[(Network, NetworkOptions)],
    members: &mut [&mut MultiRail],
    seen: &mut [Seen],
) {
    loop {
        let all = members.iter_mut().zip(&mut *seen);
        let events: u32 = all.map(|(member, seen)| member.progress(seen, 64)).sum();
        if !advance(networks) && events == 0 {
            return;
        }
    }
}

/// The server answers each visitor, so that it has an endpoint to it, or only hears it.
fn visits(answers: bool) {
    const VISITORS: usize = 40;
    let networks: Vec<_> = (0..2).map(|_| (Network::new(options()), options())).collect();
    let mut server = rails(&networks, 1);
    let mut addresses = Vec::new();
    let mut sources = std::collections::HashSet::new();
    for visitor in 0..VISITORS {
        let mut client = rails(&networks, 2 + visitor as u64);
        let ep = client.connect(&server.address()).expect("they reach each other");
        client.am_short(ep, AmId::new(1), &[7; 3], b"hello").expect("there is space");
        let mut seen = [Seen::default(), Seen::default()];
        settle(&networks, &mut [&mut server, &mut client], &mut seen);
        let &[source] = &seen[0].sources[..] else { panic!("{:?}", seen[0].sources) };
        sources.insert(source.0);
        assert_eq!(server.source_of(&client.address()), Some(source));
        let back = answers.then(|| {
            let back = server.connect(&client.address()).expect("it is known");
            server.am_short(back, AmId::new(1), &[8; 3], &[]).expect("there is space");
            settle(&networks, &mut [&mut server, &mut client], &mut seen);
            assert_eq!(seen[1].sources.len(), 1, "the answer");
            back
        });
        addresses.push(client.address());
        drop(client);
        seen[0].failed.clear();
        settle(&networks, &mut [&mut server], &mut seen[..1]);
        assert_eq!(seen[0].failed, [(Some(source), back)], "its end is reported once");
        if let Some(back) = back {
            server.disconnect(back);
            settle(&networks, &mut [&mut server], &mut seen[..1]);
        }
        let gone = addresses.last().expect("pushed just now");
        assert_eq!(server.source_of(gone), None, "it is forgotten");
        assert!(server.connect(gone).is_err(), "and not taken for somebody new");
    }
    assert_eq!(sources.len(), 1, "every visitor has the number of the one before: {sources:?}");
}

#[test]
fn visitors_that_are_only_heard_leave_nothing() {
    visits(false);
}

#[test]
fn visitors_that_are_answered_leave_nothing() {
    visits(true);
}

/// A path that breaks when its peer has said goodbye on the other one does not make a death of that.
#[test]
fn a_goodbye_on_one_path_is_a_close() {
    for broken in 0..2 {
        let networks: Vec<_> = (0..2).map(|_| (Network::new(options()), options())).collect();
        let (mut near, mut far) = (rails(&networks, 1), rails(&networks, 2));
        let ep = near.connect(&far.address()).expect("they reach each other");
        near.am_short(ep, AmId::new(1), &[7; 3], b"hello").expect("there is space");
        let mut seen = [Seen::default(), Seen::default()];
        settle(&networks, &mut [&mut near, &mut far], &mut seen);
        assert_eq!(seen[1].sources.len(), 1);
        networks[broken].0.kill(1);
        drop(far);
        settle(&networks, &mut [&mut near], &mut seen[..1]);
        assert_eq!(seen[0].how, [PeerFailure::Closed], "network {broken} is broken");
    }
    let networks: Vec<_> = (0..2).map(|_| (Network::new(options()), options())).collect();
    let (mut near, far) = (rails(&networks, 1), rails(&networks, 2));
    near.connect(&far.address()).expect("they reach each other");
    networks.iter().for_each(|(network, _)| network.kill(1));
    let mut seen = [Seen::default()];
    settle(&networks, &mut [&mut near], &mut seen);
    assert_eq!(seen[0].how, [PeerFailure::Died], "nobody said goodbye");
}
