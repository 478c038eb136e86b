//! Which choice the sender of tagged messages obeys: that for messages that find their receive, or that for unexpected ones.
//!
//! Only the receiver knows which of them a message is, and not before it has come. So it expects of the next ones what the last ones
//! of the class were.
//!
//! Rules. (1) Each message moves a count by one towards its kind, as far as [`MOST`]. (2) A kind prevails from when the count is
//! at its end until it is at the other one: a program that changes is followed within 16 messages, and one that mixes both seldom has the
//! sender change.

use super::{CLASSES, MessageKind, Traffic, place};

/// How far the count goes.
const MOST: i8 = 8;

/// For each class of each group of tagged messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prevailing([Kinds; 4 * CLASSES]);

#[derive(Clone, Copy, Debug)]
struct Kinds {
    /// Above 0: more of the last ones were unexpected.
    count: i8,
    unexpected: bool,
}

impl Default for Prevailing {
    fn default() -> Self {
        Self([Kinds { count: 0, unexpected: false }; 4 * CLASSES])
    }
}

impl Prevailing {
    /// A message has come. Which kind prevails, and whether that has just changed. Of other than tagged messages there is one kind.
    pub(crate) fn note(&mut self, traffic: Traffic, bytes: u64) -> (MessageKind, bool) {
        let kind = traffic.kind;
        let Some(kinds) = place(traffic, bytes).and_then(|place| self.0.get_mut(place)) else {
            return (kind, false);
        };
        let before = kinds.unexpected;
        let unexpected = kind == MessageKind::Unexpected;
        kinds.count = (kinds.count + if unexpected { 1 } else { -1 }).clamp(-MOST, MOST);
        if kinds.count.abs() == MOST {
            kinds.unexpected = kinds.count > 0;
        }
        let prevails = if kinds.unexpected { MessageKind::Unexpected } else { MessageKind::Tagged };
        (prevails, kinds.unexpected != before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: u64 = 64 << 10;

    fn of(kind: MessageKind) -> Traffic {
        Traffic { kind, ..Traffic::NONE }
    }

    #[test]
    fn a_program_that_changes_is_followed_and_one_that_mixes_is_not() {
        let (tagged, unexpected) = (of(MessageKind::Tagged), of(MessageKind::Unexpected));
        let mut prevailing = Prevailing::default();
        let mut until = |traffic: Traffic| {
            (1..).find(|_| prevailing.note(traffic, BYTES) == (traffic.kind, true)).unwrap()
        };
        assert_eq!((until(unexpected), until(tagged), until(unexpected)), (8, 16, 16));
        for _ in 0..1000 {
            for traffic in [tagged, unexpected] {
                assert_eq!(prevailing.note(traffic, BYTES), (MessageKind::Unexpected, false));
            }
        }
        assert_eq!(prevailing.note(tagged, 2 * BYTES).0, MessageKind::Tagged, "another class");
        let streams = of(MessageKind::Stream);
        assert!((0..100).all(|_| prevailing.note(streams, BYTES) == (streams.kind, false)));
    }
}
