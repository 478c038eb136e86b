//! A slab whose keys carry a generation, so that a stale key finds nothing instead of another entry.
//!
//! Keys travel on the wire in place of pointers. It is not a map: keys are made by the slab.

/// Names a value of a [`Slab`]; `0` is never a valid key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Key(u64);

impl Key {
    /// A key that no slab hands out.
    pub const NONE: Self = Self(0);

    #[inline]
    const fn new(index: u32, generation: u32) -> Self {
        Self(((generation as u64) << 32) | index as u64)
    }

    /// The key as it travels.
    #[inline]
    pub const fn to_wire(self) -> u64 {
        self.0
    }

    /// A key as it arrived; it finds nothing unless it is current.
    #[inline]
    pub const fn from_wire(word: u64) -> Self {
        Self(word)
    }

    /// The place in the slab.
    #[inline]
    pub const fn index(self) -> u32 {
        self.0 as u32
    }

    const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

#[derive(Debug)]
struct Place<T> {
    /// Odd while the place is taken. Even and the index of the next free place while free.
    generation: u32,
    next_free: u32,
    value: Option<T>,
}

const END: u32 = u32::MAX;

/// Values in numbered places that are used again; memory grows to the largest number held at
/// once and stays.
#[derive(Debug)]
pub struct Slab<T> {
    places: Vec<Place<T>>,
    free: u32,
    taken: usize,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self::with_capacity(0)
    }
}

impl<T> Slab<T> {
    /// A slab that holds `capacity` values without allocating.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { places: Vec::with_capacity(capacity), free: END, taken: 0 }
    }

    /// Makes space, so that `values` more need no allocation.
    pub fn reserve(&mut self, values: usize) {
        let free = self.places.len() - self.taken;
        self.places.reserve(values.saturating_sub(free));
    }

    /// How many more values need no allocation.
    #[inline]
    pub fn spare(&self) -> usize {
        self.places.capacity() - self.taken
    }

    /// Values held.
    #[inline]
    pub fn len(&self) -> usize {
        self.taken
    }

    /// Whether nothing is held.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// Bytes that the slab has allocated.
    pub fn bytes(&self) -> usize {
        self.places.capacity() * size_of::<Place<T>>()
    }

    /// Keeps `value` and names it.
    #[inline]
    pub fn insert(&mut self, value: T) -> Key {
        self.taken += 1;
        let index = self.free;
        if index == END {
            return self.grow(value);
        }
        let place = &mut self.places[index as usize];
        self.free = place.next_free;
        place.generation = place.generation.wrapping_add(1);
        place.value = Some(value);
        Key::new(index, place.generation)
    }

    #[cold]
    fn grow(&mut self, value: T) -> Key {
        let index = u32::try_from(self.places.len()).expect("fewer than 2^32 values at once");
        self.places.push(Place { generation: 1, next_free: END, value: Some(value) });
        Key::new(index, 1)
    }

    /// The value of `key`, if it is still held.
    #[inline]
    pub fn get(&self, key: Key) -> Option<&T> {
        let place = self.places.get(key.index() as usize)?;
        if place.generation != key.generation() {
            return None;
        }
        place.value.as_ref()
    }

    /// The value of `key`, if it is still held.
    #[inline]
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let place = self.places.get_mut(key.index() as usize)?;
        if place.generation != key.generation() {
            return None;
        }
        place.value.as_mut()
    }

    /// Takes the value of `key` out; the key is stale from here on.
    #[inline]
    pub fn remove(&mut self, key: Key) -> Option<T> {
        let place = self.places.get_mut(key.index() as usize)?;
        if place.generation != key.generation() {
            return None;
        }
        let value = place.value.take()?;
        place.generation = place.generation.wrapping_add(1);
        place.next_free = self.free;
        self.free = key.index();
        self.taken -= 1;
        Some(value)
    }

    /// Takes out the first value in the order of places, beginning with place `from`; with it, the
    /// place behind it.
    pub fn remove_from(&mut self, from: usize) -> Option<(usize, T)> {
        for index in from..self.places.len() {
            let place = &self.places[index];
            if place.value.is_some() {
                let value = self.remove(Key::new(index as u32, place.generation))?;
                return Some((index + 1, value));
            }
        }
        None
    }

    /// Every value held, with its key, in order of place.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        self.places.iter().enumerate().filter_map(|(index, place)| {
            place.value.as_ref().map(|value| (Key::new(index as u32, place.generation), value))
        })
    }
}

/// A slab whose values are made once and used again where they lie: nothing is moved in or out,
/// so that a large value costs only the fields that its next user sets.
#[derive(Debug)]
pub struct Recycler<T> {
    places: Vec<Recycled<T>>,
    free: u32,
    taken: usize,
}

#[derive(Debug)]
struct Recycled<T> {
    /// Odd while the place is taken.
    generation: u32,
    next_free: u32,
    value: T,
}

impl<T: Default> Recycler<T> {
    /// A slab that holds `capacity` values without allocating.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { places: Vec::with_capacity(capacity), free: END, taken: 0 }
    }

    /// Values in use.
    #[inline]
    pub fn len(&self) -> usize {
        self.taken
    }

    /// Whether no value is in use.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// A value to use, as its last user left it (a new one is the default), and its name.
    #[inline]
    pub fn acquire(&mut self) -> (Key, &mut T) {
        if self.free == END {
            self.grow();
        }
        let index = self.free;
        let place = &mut self.places[index as usize];
        self.free = place.next_free;
        self.taken += 1;
        place.generation = place.generation.wrapping_add(1);
        (Key::new(index, place.generation), &mut place.value)
    }

    /// The name that the next [`acquire`](Self::acquire) gives, for a value that is needed only if what it
    /// names does not end at once.
    #[inline]
    pub fn upcoming(&mut self) -> Key {
        if self.free == END {
            self.grow();
        }
        let generation = self.places[self.free as usize].generation;
        Key::new(self.free, generation.wrapping_add(1))
    }

    #[cold]
    fn grow(&mut self) {
        let index = u32::try_from(self.places.len()).expect("fewer than 2^32 values at once");
        self.places.push(Recycled { generation: 0, next_free: END, value: T::default() });
        self.free = index;
    }

    /// The value of `key`, if it is still in use.
    #[inline]
    pub fn get(&self, key: Key) -> Option<&T> {
        let place = self.places.get(key.index() as usize)?;
        (place.generation == key.generation() && key.generation() & 1 == 1).then_some(&place.value)
    }

    /// The value of `key`, if it is still in use.
    #[inline]
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let place = self.places.get_mut(key.index() as usize)?;
        if place.generation != key.generation() || key.generation() & 1 == 0 {
            return None;
        }
        Some(&mut place.value)
    }

    /// The same for a key that was made here and did not travel: it is of a value in use or stale.
    #[inline(always)]
    pub fn get_own(&mut self, key: Key) -> Option<&mut T> {
        let place = self.places.get_mut(key.index() as usize)?;
        (place.generation == key.generation()).then_some(&mut place.value)
    }

    /// Ends the use of `key`; the value stays as it is for the next user.
    #[inline]
    pub fn release(&mut self, key: Key) {
        let Some(place) = self.places.get_mut(key.index() as usize) else { return };
        if place.generation != key.generation() || key.generation() & 1 == 0 {
            return;
        }
        place.generation = place.generation.wrapping_add(1);
        place.next_free = self.free;
        self.free = key.index();
        self.taken -= 1;
    }

    /// Ends the use of `key`, which did not travel, if `end` makes something of its value, which is found
    /// once. `None`: it is not in use; `Some(None)`: it stays in use.
    #[inline(always)]
    pub fn release_with<R>(
        &mut self,
        key: Key,
        end: impl FnOnce(&mut T) -> Option<R>,
    ) -> Option<Option<R>> {
        let place = self.places.get_mut(key.index() as usize)?;
        if place.generation != key.generation() {
            return None;
        }
        let Some(result) = end(&mut place.value) else { return Some(None) };
        place.generation = place.generation.wrapping_add(1);
        place.next_free = self.free;
        self.free = key.index();
        self.taken -= 1;
        Some(Some(result))
    }

    /// Every value in use, with its key, in order of place.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        (0..).zip(&self.places).filter(|(_, place)| place.generation & 1 == 1).map(
            |(index, place): (u32, &Recycled<T>)| (Key::new(index, place.generation), &place.value),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recycled_values_stay_and_stale_keys_find_nothing() {
        let mut slab: Recycler<Vec<u8>> = Recycler::with_capacity(1);
        let named = slab.upcoming();
        assert_eq!((slab.get(named), slab.len()), (None, 0));
        assert_eq!(slab.upcoming(), named);
        let (first, value) = slab.acquire();
        assert_eq!(first, named);
        value.push(1);
        assert_eq!(slab.get(first), Some(&vec![1]));
        slab.release(first);
        slab.release(first);
        assert_eq!((slab.get(first), slab.len()), (None, 0));
        // A key with the generation of a free place is no key.
        assert_eq!(slab.get(Key::from_wire(2 << 32)), None);
        let named = slab.upcoming();
        let (second, value) = slab.acquire();
        assert_eq!((&*value, second.index()), (&vec![1], first.index()));
        assert_eq!(second, named);
        assert_eq!(slab.get_mut(first), None);
        assert_eq!(slab.iter().count(), 1);
        assert_eq!(slab.release_with(first, |_| Some(())), None);
        assert_eq!(slab.release_with(second, |_| None::<()>), Some(None));
        assert_eq!(slab.release_with(second, |value| value.pop()), Some(Some(1)));
        assert_eq!((slab.get(second), slab.len()), (None, 0));
        assert_eq!(slab.release_with(second, |_| Some(())), None);
    }

    #[test]
    fn reserved_space_is_used_before_more_is_allocated() {
        let mut slab = Slab::default();
        let keys: Vec<Key> = (0..3).map(|value| slab.insert(value)).collect();
        slab.remove(keys[1]);
        slab.reserve(10);
        let spare = slab.spare();
        assert!(spare >= 10, "{spare}");
        let bytes = slab.bytes();
        for left in (0..spare).rev() {
            slab.insert(7);
            assert_eq!((slab.spare(), slab.bytes()), (left, bytes));
        }
        slab.reserve(0);
        assert_eq!(slab.bytes(), bytes);
    }

    #[test]
    fn stale_keys_find_nothing() {
        let mut slab = Slab::default();
        let first = slab.insert("first");
        assert_eq!(slab.remove(first), Some("first"));
        let second = slab.insert("second");
        assert_eq!(first.index(), second.index());
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.get(second), Some(&"second"));
        assert_eq!(slab.remove_from(1), None);
        assert_eq!(slab.remove_from(0), Some((1, "second")));
        assert_eq!(slab.get(Key::NONE), None);
        assert_eq!(slab.get(Key::from_wire(u64::MAX)), None);
        assert!(slab.is_empty());
    }
}
