//! What of a message its costs depend on, beside the protocol by which it comes: its kind, what its sender says of it, and its length.

use super::{CLASSES, FIRST};

/// Kinds of messages whose costs are kept apart: a tagged one ends in its receive's buffer, an active one in memory of the
/// library, a stream has no boundaries, and an unexpected one is copied twice or waits with its sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MessageKind {
    /// Tagged messages that found their receive.
    #[default]
    Tagged,
    /// Active messages.
    Active,
    /// Sends of streams.
    Stream,
    /// Tagged messages that came before their receive.
    Unexpected,
}

impl MessageKind {
    /// All of them.
    pub(crate) const ALL: [Self; 4] = [Self::Tagged, Self::Active, Self::Stream, Self::Unexpected];

    /// Those that senders distinguish. Whether a message is unexpected only its receiver knows.
    pub(crate) const SENT: [Self; 3] = [Self::Tagged, Self::Active, Self::Stream];

    /// What the sender takes it for.
    pub(crate) const fn sent(self) -> Self {
        match self {
            Self::Unexpected => Self::Tagged,
            kind => kind,
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tagged => "tagged",
            Self::Active => "active",
            Self::Stream => "stream",
            Self::Unexpected => "unexpected",
        }
    }
}

/// What the sender of a long message says of it, who alone knows: two bits of the message's length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// It has heard nothing of the receiver since its last long message: the message is of a window.
    pub(crate) window: bool,
    /// Its memory is none of those that the last long messages to the receiver lay in: it may be in no cache.
    pub(crate) fresh: bool,
}

impl Marks {
    pub(crate) const NONE: Self = Self { window: false, fresh: false };

    const WINDOW: u64 = 1 << 63;
    const FRESH: u64 = 1 << 62;

    /// A length with its marks.
    pub(crate) const fn mark(self, length: u64) -> u64 {
        let window = if self.window { Self::WINDOW } else { 0 };
        let fresh = if self.fresh { Self::FRESH } else { 0 };
        length | window | fresh
    }

    /// The length and its marks.
    pub(crate) const fn of(marked: u64) -> (u64, Self) {
        let (window, fresh) = (marked & Self::WINDOW != 0, marked & Self::FRESH != 0);
        (marked & !(Self::WINDOW | Self::FRESH), Self { window, fresh })
    }
}

/// Messages whose costs are kept together, but for their length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    pub(crate) kind: MessageKind,
    pub(crate) marks: Marks,
}

/// Groups of messages.
pub(crate) const GROUPS: usize = 4 * MessageKind::ALL.len();

/// Choices that a receiver keeps: one for each class of each group.
pub(crate) const CHOICES: usize = GROUPS * CLASSES;

/// Those that a sender knows of.
pub(crate) const PLACES: usize = 4 * MessageKind::SENT.len() * CLASSES;

impl Traffic {
    pub(crate) const NONE: Self = Self { kind: MessageKind::Tagged, marks: Marks::NONE };

    /// Its group.
    pub(crate) fn group(self) -> usize {
        let Marks { window, fresh } = self.marks;
        self.kind as usize * 4 + usize::from(fresh) * 2 + usize::from(window)
    }

    /// That of a group.
    pub(crate) fn of_group(group: usize) -> Self {
        let marks = Marks { window: group & 1 != 0, fresh: group & 2 != 0 };
        Self { kind: MessageKind::ALL[group / 4], marks }
    }
}

/// The class of a message of so many bytes; `None` for one that is too short for a choice.
pub(crate) fn class(bytes: u64) -> Option<usize> {
    let class = bytes.checked_ilog2()?.checked_sub(FIRST)?;
    Some((class as usize).min(CLASSES - 1))
}

/// The shortest messages of a class.
pub(crate) const fn shortest(class: usize) -> u64 {
    1 << (FIRST as usize + class)
}

/// The memory that the last long messages to a peer lay in. It is compared with each of a few: what has been
/// used before those has hardly stayed in a cache.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Recent {
    addresses: [u64; 4],
    next: u8,
}

impl Recent {
    /// Whether memory is none of those that were used last, among which it is then.
    pub(crate) fn is_fresh(&mut self, address: u64) -> bool {
        let fresh = !self.addresses.contains(&address);
        if fresh {
            self.addresses[usize::from(self.next)] = address;
            self.next = (self.next + 1) % self.addresses.len() as u8;
        }
        fresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_marks_are_what_they_were() {
        for group in 0..GROUPS {
            let traffic = Traffic::of_group(group);
            assert_eq!(traffic.group(), group);
            let marked = traffic.marks.mark(0x1234_5678);
            assert_eq!(Marks::of(marked), (0x1234_5678, traffic.marks));
        }
        assert_eq!(Marks::NONE.mark(7), 7);
        assert_eq!(Marks { window: true, fresh: false }.mark(7), 1 << 63 | 7);
        assert_eq!(Marks { window: false, fresh: true }.mark(7), 1 << 62 | 7);
    }

    #[test]
    fn memory_is_fresh_until_it_was_used() {
        let mut recent = Recent::default();
        assert!((1..=4).all(|address| recent.is_fresh(address)));
        assert!((1..=4).all(|address| !recent.is_fresh(address)), "a few buffers in turn");
        assert!(recent.is_fresh(5));
        assert!(recent.is_fresh(1), "the oldest has left");
        assert!(!recent.is_fresh(5) && !recent.is_fresh(4));
        assert!((10..20).all(|address| recent.is_fresh(address)), "memory that is always new");
    }
}
