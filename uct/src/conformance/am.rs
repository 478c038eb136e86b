//! Active messages arrive whole, once, in order, whatever their length and flavour.

use bowline_base::buffer::SendBuf;
use bowline_base::view::View;

use super::harness::{Flavour, LONGEST, Random, World, header_of, lengths, pattern};
use super::{Subject, in_sequence, not_applicable};
use crate::{AmId, Caps, LocalSlice, PostError, Token};

fn every_length(of: Subject, flavour: Flavour) {
    let mut world = World::new(of, 2);
    let attr = world.attr();
    if !attr.caps.contains(flavour.bit()) {
        return not_applicable(of, "no such flavour");
    }
    let (min, max) = flavour.limits(&attr);
    for (sequence, len) in lengths(min, max).into_iter().enumerate() {
        world.send(0, 1, flavour, sequence as u64, len);
        let message = world.receive(1, 1).remove(0);
        assert_eq!(message.payload.len(), len);
        assert_eq!(message.header[0], sequence as u64);
        message.verify();
    }
    if max >= LONGEST {
        return not_applicable(of, "the limit is beyond what a test allocates");
    }
    for beyond in [max + 1, max + 64] {
        let (payload, header) = (pattern(1, beyond), header_of(1, 1, beyond));
        let refused = world.post(0, 1, flavour, AmId::new(0), &header, &payload);
        assert_eq!(refused, Err(PostError::TooLong), "{beyond} bytes with a limit of {max}");
    }
    world.rounds(20);
    assert!(world.peer(1).seen.messages.is_empty(), "what was refused arrived");
}

/// Short messages of every length up to the limit; longer ones are refused.
pub fn short_lengths(of: Subject) {
    every_length(of, Flavour::Short);
}

/// Packed messages of every length up to the limit; longer ones are refused.
pub fn bcopy_lengths(of: Subject) {
    every_length(of, Flavour::Bcopy);
}

/// Messages sent from where they lie, of every length between the limits.
pub fn zcopy_lengths(of: Subject) {
    every_length(of, Flavour::Zcopy);
}

/// A message in pieces arrives as one; too many pieces are refused.
pub fn zcopy_pieces(of: Subject) {
    let mut world = World::new(of, 2);
    let attr = world.attr();
    if !attr.caps.contains(Caps::AM_ZCOPY) {
        return not_applicable(of, "no such flavour");
    }
    let most = attr.limits.am.max_iov;
    for pieces in [1, 2, 3, most, most + 1] {
        let len = Flavour::Zcopy.fit(&attr, pieces * 40);
        let buffer = SendBuf::owned(pattern(9, len));
        let each = len / pieces;
        let slices: Vec<LocalSlice> = (0..pieces)
            .map(|i| {
                let rest = if i + 1 == pieces { len - each * i } else { each };
                // SAFETY: the buffer is kept, and left alone, until the operation has ended.
                unsafe { LocalSlice::of_send(&buffer, each * i, rest) }.expect("inside")
            })
            .collect();
        let (ep, header) = (world.ep(0, 1), header_of(1, 9, len));
        let token = world.peer(0).token();
        let posted = world.peer(0).iface.am_zcopy(ep, AmId::new(3), &header, &slices, token);
        if pieces > most {
            let error = posted.expect_err("more pieces than the limit");
            assert!(matches!(error, PostError::BadArgument | PostError::TooLong), "{error}");
            continue;
        }
        let message = world.receive(1, 1).remove(0);
        world.finish(0, token, posted);
        assert_eq!(message.payload.len(), len);
        message.verify();
    }
    // No piece at all is an empty message, where empty ones can be sent.
    if attr.limits.am.min_zcopy == 0 {
        let (ep, header) = (world.ep(0, 1), header_of(2, 9, 0));
        let token = world.peer(0).token();
        let posted = world.peer(0).iface.am_zcopy(ep, AmId::new(3), &header, &[], token);
        world.receive(1, 1)[0].verify();
        world.finish(0, token, posted);
        let posted = world.peer(0).iface.am_zcopy(ep, AmId::new(3), &header, &[], Token::NONE);
        assert!(posted.is_ok());
        world.receive(1, 1)[0].verify();
        world.rounds(20);
        assert!(world.peer(0).seen.completed.is_empty(), "a completion that nobody asked for");
    }
}

/// The space is as large as asked for, and less may be packed.
pub fn bcopy_packs_less(of: Subject) {
    let mut world = World::new(of, 2);
    let attr = world.attr();
    if !attr.caps.contains(Caps::AM_BCOPY) {
        return not_applicable(of, "no such flavour");
    }
    let max = attr.limits.am.max_bcopy.min(LONGEST);
    for packed in [0, 1, max / 2, max - 1, max] {
        let (bytes, header) = (pattern(5, packed), header_of(1, 5, packed));
        let mut pack = |space: View<'_>| {
            assert!(space.len() >= max, "space for {} of {max} bytes", space.len());
            space.copy_in(&bytes)
        };
        let ep = world.ep(0, 1);
        let id = AmId::new(31);
        let returned = world.peer(0).iface.am_bcopy(ep, id, &header, max, &mut pack);
        assert_eq!(returned, Ok(packed), "the packed length");
        let message = world.receive(1, 1).remove(0);
        assert_eq!((message.payload.len(), message.id), (packed, id));
        message.verify();
    }
}

/// Each of the 32 ids arrives as itself, in every flavour.
pub fn every_id(of: Subject) {
    let mut world = World::new(of, 2);
    let attr = world.attr();
    for flavour in Flavour::offered(&attr) {
        for id in 0..AmId::COUNT {
            let len = flavour.fit(&attr, usize::from(id));
            let (payload, header) = (pattern(1, len), header_of(1, 1, len));
            world.until(|w| w.post(0, 1, flavour, AmId::new(id), &header, &payload).is_ok());
            let message = world.receive(1, 1).remove(0);
            assert_eq!(message.id.get(), id);
            message.verify();
        }
    }
}

/// All bits of the header's words arrive.
pub fn headers_are_intact(of: Subject) {
    let mut world = World::new(of, 2);
    let attr = world.attr();
    let mut random = Random::new(11);
    for flavour in Flavour::offered(&attr) {
        let payload = vec![0xa5; flavour.fit(&attr, 3)];
        let mut headers = vec![[0; 3], [u64::MAX; 3], [1, u64::MAX - 1, 1 << 63]];
        headers.extend((0..20).map(|_| [random.word(), random.word(), random.word()]));
        for header in headers {
            world.until(|w| w.post(0, 1, flavour, AmId::new(2), &header, &payload).is_ok());
            let message = world.receive(1, 1).remove(0);
            assert_eq!(message.header, header);
            assert_eq!(message.payload, payload);
        }
    }
}

/// Messages of one endpoint arrive in the order in which they were posted, whatever their flavour
/// and length.
pub fn order_across_flavours(of: Subject) {
    const COUNT: usize = 3000;
    let mut world = World::new(of, 2);
    let attr = world.attr();
    let flavours = Flavour::offered(&attr);
    let mut random = Random::new(13);
    for sequence in 0..COUNT {
        let flavour = flavours[random.below(flavours.len())];
        let wanted = [0, 8, 40, 200, 5000, 20_000][random.below(6)];
        let len = flavour.fit(&attr, random.below(wanted + 1));
        world.send(0, 1, flavour, sequence as u64, len);
        // Runs of different lengths, so that queues are found at every filling.
        if random.below(40) == 0 {
            world.rounds(1 + random.below(4));
        }
    }
    let mut arrived = world.receive(1, COUNT);
    arrived.iter().for_each(super::harness::ReceivedAm::verify);
    if !attr.caps.contains(Caps::AM_ORDERED) {
        not_applicable(of, "messages are not ordered");
        arrived.sort_by_key(|message| message.header[0]);
    }
    for (sequence, message) in arrived.iter().enumerate() {
        assert_eq!(message.header[0], sequence as u64, "out of order, lost or doubled");
    }
}

/// Two members send to each other at once; each direction is whole, and in order where that is
/// claimed.
pub fn both_directions(of: Subject) {
    const COUNT: u64 = 400;
    if of.loopback {
        return not_applicable(of, "a loopback interface has one direction");
    }
    let mut world = World::new(of, 2);
    let attr = world.attr();
    let flavours = Flavour::offered(&attr);
    for sequence in 0..COUNT {
        let flavour = flavours[sequence as usize % flavours.len()];
        let len = flavour.fit(&attr, sequence as usize);
        world.send(0, 1, flavour, sequence, len);
        world.send(1, 0, flavour, sequence, len);
    }
    for member in [0, 1] {
        let arrived = world.receive(member, COUNT as usize);
        arrived.iter().for_each(super::harness::ReceivedAm::verify);
        let stream = arrived.iter().map(|message| message.header[0]).collect();
        in_sequence(of, &attr, stream, 0, COUNT);
    }
}

/// Five members, each sending to each; every stream arrives whole, and in order where that is
/// claimed.
pub fn everybody_to_everybody(of: Subject) {
    const MEMBERS: usize = 5;
    const COUNT: u64 = 60;
    if of.loopback {
        return not_applicable(of, "a loopback interface has one peer");
    }
    let mut world = World::new(of, MEMBERS);
    let attr = world.attr();
    let flavours = Flavour::offered(&attr);
    for sequence in 0..COUNT {
        for from in 0..MEMBERS {
            for to in (0..MEMBERS).filter(|&to| to != from) {
                let flavour = flavours[(from + to + sequence as usize) % flavours.len()];
                world.send(from, to, flavour, sequence, flavour.fit(&attr, from * 10 + to));
            }
        }
    }
    for to in 0..MEMBERS {
        let mut streams = std::collections::HashMap::<_, Vec<u64>>::new();
        for message in world.receive(to, (MEMBERS - 1) * COUNT as usize) {
            message.verify();
            streams.entry(message.source).or_default().push(message.header[0]);
        }
        assert_eq!(streams.len(), MEMBERS - 1, "sources seen at {to}");
        for stream in streams.into_values() {
            in_sequence(of, &attr, stream, 0, COUNT);
        }
    }
}
