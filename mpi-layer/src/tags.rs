//! How tags of this layer lie in the 64-bit tags of the protocol layer.
//!
//! ```text
//! point-to-point   generation (32) | 0 (1) | user tag (31)
//! collective       generation (32) | kind (2) | sequence (22) | phase (8)
//! ```
//! The generation is agreed when a communicator is made and differs from that of every earlier
//! communicator of any member. Context ids are used again, so a message that was never received
//! may still wait in a context when its id belongs to the next communicator; it does not match
//! there, since its generation is another one.
//!
//! The sequence numbers the collectives of a communicator, so that what a failed one left behind
//! does not match the next. Blocking, nonblocking and persistent ones are numbered apart, since none ever
//! matches one of another kind: programs come to expect that a member may call a blocking one before, and
//! another member after, a nonblocking one. Persistent ones are numbered in the order in which they are made:
//! members may start several in different orders, and each of them again and again. When all numbers of a kind were
//! taken they come again, and [`comm::numbers`](crate::comm) says why no two collectives mix then. Within one collective,
//! messages between two ranks are distinguished by phase and, within a phase, by their order.

use crate::consts::ANY_TAG;

const USER: u64 = 0x7fff_ffff;

/// How many numbers the collectives of a kind have.
pub(crate) const NUMBERS: u32 = 1 << 22;

/// The bits of a collective's number.
const NUMBER: u32 = NUMBERS - 1;

/// How a collective is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Blocking = 0,
    Nonblocking = 1,
    Persistent = 2,
    /// The empty messages that wake those who sleep in a blocking one, whichever it is.
    Wake = 3,
}

/// A tag and the mask under which it is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) tag: u64,
    pub(crate) mask: u64,
}

/// The tag of a user's message. `tag` is not negative.
#[inline]
pub(crate) fn send(generation: u32, tag: i32) -> u64 {
    u64::from(generation) << 32 | u64::from(tag as u32)
}

/// What a receive with this tag accepts; `None` when the tag is not allowed.
#[inline]
pub(crate) fn receive(generation: u32, tag: i32) -> Option<Wanted> {
    if tag >= 0 {
        return Some(Wanted { tag: send(generation, tag), mask: u64::MAX });
    }
    (tag == ANY_TAG).then(|| Wanted { tag: u64::from(generation) << 32, mask: !USER })
}

/// The user's tag of a message.
#[inline]
pub(crate) fn user(tag: u64) -> i32 {
    (tag & USER) as i32
}

/// The generation of a tag.
pub(crate) fn generation(tag: u64) -> u32 {
    (tag >> 32) as u32
}

/// The tag of a collective's messages in phase 0; the phase is added.
#[inline]
pub(crate) fn collective(generation: u32, sequence: u32) -> u64 {
    collective_of(Kind::Blocking, generation, sequence)
}

/// The same of any kind.
#[inline]
pub(crate) fn collective_of(kind: Kind, generation: u32, sequence: u32) -> u64 {
    let number = (kind as u32) << 22 | sequence & NUMBER;
    u64::from(generation) << 32 | u64::from(number) << 8
}

/// The number of a collective among those of its kind, for a tag of its messages.
pub(crate) fn number(tag: u64) -> u32 {
    (tag >> 8) as u32 & NUMBER
}

/// The collective of a tag, in words.
pub(crate) fn describe(tag: u64) -> String {
    let (number, phase) = (number(tag), tag & 0xff);
    match tag >> 30 & 3 {
        0 => format!("blocking collective {number} (phase {phase})"),
        1 => format!("nonblocking collective {number} (phase {phase})"),
        2 => format!("persistent collective {number} (phase {phase})"),
        _ => "a blocking collective, to wake this rank".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collectives_of_different_kinds_do_not_match() {
        let tag = |kind, sequence| collective_of(kind, 7, sequence);
        let kinds = [Kind::Blocking, Kind::Nonblocking, Kind::Persistent, Kind::Wake];
        for (a, b) in [(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3)] {
            assert_ne!(tag(kinds[a], 5), tag(kinds[b], 5));
            assert_ne!(tag(kinds[a], NUMBER), tag(kinds[b], 0));
        }
        for kind in kinds {
            assert_eq!(tag(kind, NUMBER + 1), tag(kind, 0), "they go round within their kind");
            assert_eq!(generation(tag(kind, u32::MAX)), 7);
            assert_eq!(number(tag(kind, 5) + 0xff), 5);
            let word = format!("{kind:?} collective 5 (phase 2)").to_lowercase();
            assert!(kind == Kind::Wake || describe(tag(kind, 5) + 2) == word, "{word}");
        }
        assert_eq!(collective(7, 5), tag(Kind::Blocking, 5));
    }

    #[test]
    fn any_tag_matches_every_tag_of_its_generation_only() {
        let wanted = receive(7, ANY_TAG).unwrap();
        for tag in [0, 1, i32::MAX] {
            assert_eq!((send(7, tag) ^ wanted.tag) & wanted.mask, 0);
            assert_ne!((send(8, tag) ^ wanted.tag) & wanted.mask, 0);
            assert_eq!(user(send(7, tag)), tag);
        }
        assert_eq!(receive(7, -1), None);
        assert_eq!(receive(7, i32::MIN), None);
    }
}
