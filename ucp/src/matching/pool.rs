//! The entries of a matching engine and the lists that they form.
//!
//! Receives that wait and messages that wait are entries of the same kind in one pool. A list names
//! its first and its last entry; entries name the next. Numbers of entries stay the same while an
//! engine is rebuilt, so that who posted a receive can name it when it is taken back.
//!
//! An entry is 40 bytes, so that a search of a list reads no more memory than it must.

use super::Want;

/// No entry.
pub(super) const END: u32 = u32::MAX;

/// Most entries: 40 GB of them. Sequence numbers must not run out.
const MOST: u32 = 1 << 30;

/// One entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub(super) want: Want,
    pub(super) value: u64,
    pub(super) next: u32,
    /// The entry's place in time among those of an index; lists have no use for it.
    pub(super) sequence: u32,
}

/// First and last entry of a list; in an empty one both are [`END`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fifo {
    pub(super) head: u32,
    pub(super) tail: u32,
}

impl Fifo {
    pub(super) const EMPTY: Self = Self { head: END, tail: END };

    #[inline(always)]
    pub(super) const fn is_empty(self) -> bool {
        self.head == END
    }
}

/// An entry that a search found, and the one before it in its list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) before: u32,
    pub(super) index: u32,
}

/// The entries.
#[derive(Debug)]
pub(super) struct Pool {
    items: Vec<Item>,
    free: u32,
}

impl Default for Pool {
    fn default() -> Self {
        Self { items: Vec::new(), free: END }
    }
}

impl Pool {
    #[inline(always)]
    pub(super) fn get(&self, index: u32) -> &Item {
        &self.items[index as usize]
    }

    /// The entry, if there is one of this number.
    pub(super) fn look(&self, index: u32) -> Option<&Item> {
        self.items.get(index as usize)
    }

    /// Fills a free entry. Inlined, so that what it is filled with comes in registers: read from
    /// memory that was written in other pieces, it would wait for the writes.
    #[inline(always)]
    pub(super) fn place(&mut self, want: Want, value: u64) -> u32 {
        if self.free == END {
            self.grow();
        }
        let index = self.free;
        let place = &mut self.items[index as usize];
        self.free = place.next;
        place.want.source = want.source;
        place.want.source_mask = want.source_mask;
        place.want.tag = want.tag;
        place.want.tag_mask = want.tag_mask;
        place.value = value;
        place.next = END;
        index
    }

    /// Gives an entry its sequence number.
    #[inline(always)]
    pub(super) fn number(&mut self, index: u32, sequence: u32) {
        self.items[index as usize].sequence = sequence;
    }

    /// Makes a free entry.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let index = u32::try_from(self.items.len()).ok().filter(|&index| index < MOST);
        let index = index.expect("at most 2^30 receives and messages wait at once");
        let want = Want { source: 0, source_mask: 0, tag: 0, tag_mask: 0 };
        self.items.push(Item { want, value: 0, next: END, sequence: 0 });
        self.free = index;
    }

    /// Gives an entry back that is in no list, and returns its value.
    #[inline(always)]
    pub(super) fn free(&mut self, index: u32) -> u64 {
        let item = &mut self.items[index as usize];
        item.next = self.free;
        self.free = index;
        item.value
    }

    /// Appends an entry whose `next` is [`END`].
    #[inline(always)]
    pub(super) fn append(&mut self, list: &mut Fifo, index: u32) {
        if list.tail == END {
            list.head = index;
        } else {
            self.items[list.tail as usize].next = index;
        }
        list.tail = index;
    }

    /// The first entry for which `fits` says so, and how many were looked at.
    #[inline(always)]
    pub(super) fn search(
        &self,
        list: Fifo,
        mut fits: impl FnMut(&Item) -> bool,
    ) -> (Option<Found>, u32) {
        let (mut before, mut index, mut looks) = (END, list.head, 0);
        while index != END {
            looks += 1;
            let item = &self.items[index as usize];
            if fits(item) {
                return (Some(Found { before, index }), looks);
            }
            before = index;
            index = item.next;
        }
        (None, looks)
    }

    /// Takes an entry out of the list in which it was found.
    #[inline(always)]
    pub(super) fn unlink(&mut self, list: &mut Fifo, found: Found) {
        let item = &mut self.items[found.index as usize];
        let next = std::mem::replace(&mut item.next, END);
        if found.before == END {
            list.head = next;
        } else {
            self.items[found.before as usize].next = next;
        }
        if list.tail == found.index {
            list.tail = found.before;
        }
    }

    /// Takes the entry `index` out of `list`, if it is there.
    pub(super) fn unlink_index(&mut self, list: &mut Fifo, index: u32) -> bool {
        let (mut before, mut at) = (END, list.head);
        while at != END && at != index {
            before = at;
            at = self.items[at as usize].next;
        }
        if at == END {
            return false;
        }
        self.unlink(list, Found { before, index });
        true
    }

    /// The entries of a list, in order.
    pub(super) fn walk(&self, list: Fifo) -> impl Iterator<Item = (u32, &Item)> {
        let mut index = list.head;
        std::iter::from_fn(move || {
            let at = index;
            let item = self.items.get(at as usize)?;
            index = item.next;
            Some((at, item))
        })
    }

    /// Empties a list whose entries stay placed, and hands out their numbers in order. Each has
    /// [`END`] behind it afterwards.
    pub(super) fn take_all(&mut self, list: &mut Fifo) -> Vec<u32> {
        let all: Vec<u32> = self.walk(*list).map(|(index, _)| index).collect();
        for &index in &all {
            self.items[index as usize].next = END;
        }
        *list = Fifo::EMPTY;
        all
    }
}
