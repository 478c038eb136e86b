//! Where the objects behind handles are: one table for each kind.
//!
//! A place that was freed is used again with the next generation, so that a handle of the object
//! before it finds nothing.

use crate::handle::{GENERATION_MAX, INDEX_MAX, decode, encode};

/// Objects of one kind by their handles.
#[derive(Debug)]
pub(crate) struct Table<T> {
    kind: u8,
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Place<T> {
    generation: u32,
    object: Option<T>,
}

impl<T> Table<T> {
    pub(crate) const fn new(kind: u8) -> Self {
        Self { kind, places: Vec::new(), free: Vec::new() }
    }

    /// Takes an object in and gives its handle; `None` when all places are taken.
    pub(crate) fn insert(&mut self, object: T) -> Option<usize> {
        self.insert_with(|_| object)
    }

    /// [`insert`](Self::insert) of an object that knows its handle. It is made where it stays: the parts of
    /// one that was made elsewhere would be read back before they are written.
    #[inline(always)]
    pub(crate) fn insert_with(&mut self, object: impl FnOnce(usize) -> T) -> Option<usize> {
        let value = self.reserve()?;
        if let Some(Place { object: free @ None, .. }) = self.places.get_mut(value & INDEX_MAX) {
            *free = Some(object(value));
        }
        Some(value)
    }

    /// A handle of something that is not there yet: until it is, the handle finds nothing.
    #[inline]
    pub(crate) fn reserve(&mut self) -> Option<usize> {
        let index = match self.free.pop() {
            Some(index) => index as usize,
            None => self.grow()?,
        };
        let place = &mut self.places[index];
        place.generation =
            if place.generation == GENERATION_MAX { 1 } else { place.generation + 1 };
        Some(encode(self.kind, index, place.generation))
    }

    /// A place more.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) -> Option<usize> {
        if self.places.len() > INDEX_MAX {
            return None;
        }
        self.places.push(Place { generation: 0, object: None });
        Some(self.places.len() - 1)
    }

    /// Gives a handle back that was reserved and not filled.
    pub(crate) fn give_up(&mut self, value: usize) {
        if let Some((index, generation)) = decode(self.kind, value)
            && let Some(place) = self.places.get_mut(index)
            && place.generation == generation
            && place.object.is_none()
        {
            // A second time is reported by the generation.
            place.generation = if generation == GENERATION_MAX { 1 } else { generation + 1 };
            self.free.push(index as u32);
        }
    }

    /// Puts an object where a handle was reserved for it.
    pub(crate) fn fill(&mut self, value: usize, object: T) {
        if let Some((index, generation)) = decode(self.kind, value)
            && let Some(place) = self.places.get_mut(index)
            && place.generation == generation
        {
            place.object = Some(object);
        }
    }

    /// The object of a handle.
    #[inline]
    pub(crate) fn get(&self, value: usize) -> Option<&T> {
        let (index, generation) = decode(self.kind, value)?;
        let place = self.places.get(index).filter(|place| place.generation == generation)?;
        place.object.as_ref()
    }

    /// The object of a handle, to change it.
    pub(crate) fn get_mut(&mut self, value: usize) -> Option<&mut T> {
        let (index, generation) = decode(self.kind, value)?;
        let place = self.places.get_mut(index).filter(|place| place.generation == generation)?;
        place.object.as_mut()
    }

    /// Takes an object out.
    pub(crate) fn remove(&mut self, value: usize) -> Option<T> {
        self.remove_part(value, |_| true, |object| object)
    }

    /// Takes an object out if it is as it should be, and the parts that are wanted out of that.
    #[inline(always)]
    pub(crate) fn remove_part<R>(
        &mut self,
        value: usize,
        fits: impl FnOnce(&T) -> bool,
        part: impl FnOnce(T) -> R,
    ) -> Option<R> {
        let (index, generation) = decode(self.kind, value)?;
        let place = self.places.get_mut(index).filter(|place| place.generation == generation)?;
        if !place.object.as_ref().is_some_and(fits) {
            return None;
        }
        let part = part(place.object.take()?);
        // Below `INDEX_MAX`, which fits.
        self.free.push(index as u32);
        Some(part)
    }

    /// The handle whose low half is this number; the number itself when there is none.
    pub(crate) fn complete(&self, low: usize) -> usize {
        match decode(self.kind, low).and_then(|(index, _)| Some((index, self.places.get(index)?))) {
            Some((index, place)) if place.object.is_some() => {
                encode(self.kind, index, place.generation)
            }
            _ => low,
        }
    }

    /// Takes all objects out.
    pub(crate) fn drain(&mut self) -> Vec<T> {
        let taken = self.places.iter_mut().enumerate().filter_map(|(index, place)| {
            let object = place.object.take()?;
            self.free.push(index as u32);
            Some(object)
        });
        taken.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freed_handle_finds_nothing() {
        let mut table = Table::new(3);
        let first = table.insert("a").unwrap();
        let second = table.insert("b").unwrap();
        assert_eq!(table.get(first), Some(&"a"));
        assert_eq!(table.remove(first), Some("a"));
        assert_eq!(table.get(first), None);
        assert_eq!(table.remove(first), None);
        let third = table.insert("c").unwrap();
        assert_ne!(third, first);
        assert_eq!(third & 0xffff_ffff, first & 0xffff_ffff, "the place is used again");
        assert_eq!((table.get(first), table.get(third)), (None, Some(&"c")));
        assert_eq!(table.get(second), Some(&"b"));
        assert_eq!(table.drain(), ["c", "b"]);
        assert_eq!(table.get(second), None);
    }

    #[test]
    fn a_reserved_handle_finds_nothing_until_its_object_is_there() {
        let mut table = Table::new(3);
        let later = table.reserve().unwrap();
        let now = table.insert("now").unwrap();
        assert_ne!(later, now);
        assert_eq!(table.get(later), None);
        assert_eq!(table.remove(later), None);
        table.fill(later, "later");
        assert_eq!(table.remove(later), Some("later"));
        // A handle that is over takes nothing, and what is given up is given up once.
        let given_up = table.reserve().unwrap();
        table.give_up(given_up);
        table.give_up(given_up);
        assert_eq!(table.free.len(), 1);
        let next = table.reserve().unwrap();
        table.fill(later, "too late");
        assert_eq!((table.get(later), table.get(next)), (None, None));
    }

    #[test]
    fn the_low_half_leads_to_the_handle() {
        let mut table = Table::new(7);
        let value = table.insert(()).unwrap();
        assert_eq!(table.complete(value & 0xffff_ffff), value);
        table.remove(value);
        assert_eq!(table.complete(value & 0xffff_ffff), value & 0xffff_ffff);
        assert_eq!(table.complete(5), 5);
        assert_eq!(table.complete(encode(7, 99, 0)), encode(7, 99, 0));
    }

    #[test]
    fn other_kinds_and_wild_values_find_nothing() {
        let mut table = Table::new(1);
        let value = table.insert(()).unwrap();
        for wild in [0, 1, 0x101, 0xfff, 0x1000, usize::MAX, value ^ (3 << 27), value + 1] {
            assert!(table.get(wild).is_none(), "{wild:#x}");
        }
    }
}
