//! The list engine: two linked lists searched from the oldest entry. It is the reference that
//! other engines are compared with, and the fastest one while queues are short.

use super::{MatchEngine, Want};

const END: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry {
    want: Want,
    value: u64,
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct Queue {
    head: u32,
    tail: u32,
    len: usize,
}

impl Queue {
    const EMPTY: Self = Self { head: END, tail: END, len: 0 };
}

/// Two lists over one pool of entries.
#[derive(Debug)]
pub(crate) struct ListEngine {
    entries: Vec<Entry>,
    free: u32,
    posted: Queue,
    unexpected: Queue,
}

impl ListEngine {
    pub(crate) fn new() -> Self {
        Self { entries: Vec::new(), free: END, posted: Queue::EMPTY, unexpected: Queue::EMPTY }
    }

    /// Fills a free entry. Inlined, so that what it is filled with comes in registers: read from
    /// memory that was written in other pieces, it would wait for the writes.
    #[inline(always)]
    fn place(&mut self, want: Want, value: u64) -> u32 {
        if self.free == END {
            self.grow();
        }
        let index = self.free;
        let place = &mut self.entries[index as usize];
        self.free = place.next;
        place.want.source = want.source;
        place.want.source_mask = want.source_mask;
        place.want.tag = want.tag;
        place.want.tag_mask = want.tag_mask;
        place.value = value;
        place.next = END;
        index
    }

    /// Makes a free entry.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let index = u32::try_from(self.entries.len()).expect("fewer than 2^32 entries");
        let want = Want { source: 0, source_mask: 0, tag: 0, tag_mask: 0 };
        self.entries.push(Entry { want, value: 0, next: END });
        self.free = index;
    }

    #[inline(always)]
    fn append(entries: &mut [Entry], queue: &mut Queue, index: u32) {
        if queue.tail == END {
            queue.head = index;
        } else {
            entries[queue.tail as usize].next = index;
        }
        queue.tail = index;
        queue.len += 1;
    }

    /// Unlinks the first entry for which `fits` says so.
    #[inline(always)]
    fn take(
        entries: &mut [Entry],
        free: &mut u32,
        queue: &mut Queue,
        mut fits: impl FnMut(&Entry) -> bool,
    ) -> Option<u64> {
        let (mut before, mut index) = (END, queue.head);
        while index != END {
            let entry = &mut entries[index as usize];
            let next = entry.next;
            if fits(entry) {
                let value = entry.value;
                entry.next = *free;
                *free = index;
                if before == END {
                    queue.head = next;
                } else {
                    entries[before as usize].next = next;
                }
                if queue.tail == index {
                    queue.tail = before;
                }
                queue.len -= 1;
                return Some(value);
            }
            before = index;
            index = next;
        }
        None
    }

    fn walk(&self, queue: &Queue) -> impl Iterator<Item = &Entry> {
        let mut index = queue.head;
        std::iter::from_fn(move || {
            let entry = self.entries.get(index as usize)?;
            index = entry.next;
            Some(entry)
        })
    }
}

const fn exactly(source: u32, tag: u64) -> Want {
    Want { source, source_mask: u32::MAX, tag, tag_mask: u64::MAX }
}

impl MatchEngine for ListEngine {
    #[inline(always)]
    fn post(&mut self, want: Want, value: u64) {
        let index = self.place(want, value);
        Self::append(&mut self.entries, &mut self.posted, index);
    }

    fn post_first(&mut self, want: Want, value: u64) {
        let index = self.place(want, value);
        self.entries[index as usize].next = self.posted.head;
        if self.posted.tail == END {
            self.posted.tail = index;
        }
        self.posted.head = index;
        self.posted.len += 1;
    }

    #[inline]
    fn arrive(&mut self, source: u32, tag: u64) -> Option<u64> {
        Self::take(&mut self.entries, &mut self.free, &mut self.posted, |e| {
            e.want.fits(source, tag)
        })
    }

    fn add_unexpected(&mut self, source: u32, tag: u64, value: u64) {
        let index = self.place(exactly(source, tag), value);
        Self::append(&mut self.entries, &mut self.unexpected, index);
    }

    #[inline(always)]
    fn take_unexpected(&mut self, want: &Want) -> Option<u64> {
        if self.unexpected.head == END {
            return None;
        }
        Self::take(&mut self.entries, &mut self.free, &mut self.unexpected, |e| {
            want.fits(e.want.source, e.want.tag)
        })
    }

    fn find_unexpected(&self, want: &Want) -> Option<u64> {
        self.walk(&self.unexpected).find(|e| want.fits(e.want.source, e.want.tag)).map(|e| e.value)
    }

    fn remove_posted(&mut self, value: u64) -> bool {
        Self::take(&mut self.entries, &mut self.free, &mut self.posted, |e| e.value == value)
            .is_some()
    }

    fn remove_posted_where(&mut self, which: &mut dyn FnMut(&Want) -> bool, out: &mut Vec<u64>) {
        while let Some(value) =
            Self::take(&mut self.entries, &mut self.free, &mut self.posted, |e| which(&e.want))
        {
            out.push(value);
        }
    }

    #[inline]
    fn unexpected_len(&self) -> usize {
        self.unexpected.len
    }

    #[inline]
    fn posted_len(&self) -> usize {
        self.posted.len
    }

    fn unexpected_values(&self, out: &mut Vec<u64>) {
        out.extend(self.walk(&self.unexpected).map(|e| e.value));
    }
}

#[cfg(test)]
mod tests;
