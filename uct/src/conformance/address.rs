//! Addresses: whose are reached, and why the others are not.

use super::harness::{Flavour, Random, World};
use super::{Member, Subject, not_applicable};

#[track_caller]
fn refused(iface: &mut dyn Member, address: &[u8], what: &str) {
    let reason = iface.reachable(address).expect_err(what).to_string();
    assert!(reason.len() > 8, "{what}: {reason:?} is no reason");
    let error = iface.connect(address).expect_err(what).to_string();
    assert!(error.len() > 8, "{what}: {error:?} is no reason");
}

/// Members reach each other, and an address stays the same.
pub fn own_peers_are_reachable(of: Subject) {
    let mut world = World::new(of, 3);
    for from in 0..3 {
        for to in 0..3 {
            if from == to && !of.loopback {
                continue;
            }
            let address = world.peer(to).iface.address();
            assert_eq!(address, world.peer(to).iface.address(), "an address does not change");
            assert!(!address.is_empty(), "an address has bytes");
            world.peer(from).iface.reachable(&address).expect("a member is reachable");
        }
    }
}

/// Every truncation of an address is refused, with a reason.
pub fn damaged_addresses_are_refused_with_a_reason(of: Subject) {
    let mut world = World::new(of, 2);
    let address = world.peer(1).iface.address();
    for cut in 0..address.len() {
        let what = format!("an address cut to {cut} of {} bytes", address.len());
        refused(&mut *world.peer(0).iface, &address[..cut], &what);
    }
}

/// Bytes that are nobody's address are refused, with a reason.
pub fn foreign_addresses_are_refused_with_a_reason(of: Subject) {
    let mut world = World::new(of, 2);
    let len = world.peer(1).iface.address().len();
    let mut random = Random::new(7);
    for round in 0..200 {
        let len = if round % 2 == 0 { len } else { random.below(2 * len + 1) };
        let bytes: Vec<u8> = (0..len).map(|_| random.word() as u8).collect();
        refused(&mut *world.peer(0).iface, &bytes, "random bytes");
    }
    refused(&mut *world.peer(0).iface, &vec![0; len], "zeros");
    if !of.loopback {
        not_applicable(of, "interfaces of another world may or may not be reachable");
        return;
    }
    let other = World::new(of, 1).peer(0).iface.address();
    refused(&mut *world.peer(0).iface, &other, "the address of an interface that is gone");
}

/// An address with a changed bit is refused with a reason or leads to an endpoint; neither
/// panics, and the world goes on.
pub fn changed_addresses_do_no_harm(of: Subject) {
    let mut world = World::new(of, 2);
    let address = world.peer(1).iface.address();
    for bit in 0..address.len() * 8 {
        let mut changed = address.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let iface = &mut world.peer(0).iface;
        if let Err(unreachable) = iface.reachable(&changed) {
            assert!(unreachable.reason.len() > 8, "bit {bit}: {unreachable:?} is no reason");
        }
        if let Ok(ep) = iface.connect(&changed)
            && ep != world.ep(0, 1)
        {
            world.peer(0).iface.disconnect(ep);
        }
    }
    let flavour = Flavour::offered(&world.attr())[0];
    let len = flavour.fit(&world.attr(), 8);
    // Where a changed address led to the same endpoint it may have been closed by now.
    let ep = world.peer(0).iface.connect(&address).expect("a member is reachable");
    world.set_ep(0, 1, ep);
    world.send(0, 1, flavour, 1, len);
    world.receive(1, 1)[0].verify();
}
