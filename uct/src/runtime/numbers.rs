//! What belongs to the endpoints and senders of another interface, by their numbers, which the contract
//! keeps small: a table in place of a search.

/// A number for each of some numbers of the interface below: the index of a peer, for instance.
#[derive(Debug, Default)]
pub struct NumberTable(Vec<Option<u32>>);

impl NumberTable {
    /// What belongs to `number`.
    #[inline]
    pub fn get(&self, number: u32) -> Option<u32> {
        self.0.get(number as usize).copied().flatten()
    }

    /// From now on `value` belongs to `number`. Returns what did before.
    pub fn set(&mut self, number: u32, value: u32) -> Option<u32> {
        let place = number as usize;
        if place >= self.0.len() {
            self.0.resize(place + 1, None);
        }
        self.0[place].replace(value)
    }

    /// From now on `value` belongs to no number.
    pub fn forget(&mut self, value: u32) {
        for entry in &mut self.0 {
            entry.take_if(|known| *known == value);
        }
    }

    /// From now on nothing belongs to `number`. Returns what did.
    pub fn clear(&mut self, number: u32) -> Option<u32> {
        self.0.get_mut(number as usize)?.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_what_was_set_last() {
        let mut table = NumberTable::default();
        assert_eq!((table.get(3), table.clear(3)), (None, None));
        assert_eq!((table.set(3, 7), table.set(3, 8)), (None, Some(7)));
        assert_eq!((table.get(3), table.get(2), table.get(4)), (Some(8), None, None));
        assert_eq!((table.clear(3), table.get(3)), (Some(8), None));
        for (number, value) in [(1, 5), (2, 6), (4, 5)] {
            table.set(number, value);
        }
        table.forget(5);
        assert_eq!([1, 2, 4].map(|number| table.get(number)), [None, Some(6), None]);
    }
}
