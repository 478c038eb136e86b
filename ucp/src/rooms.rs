//! Memory for payloads that wait for a short time: active messages for their handlers, bytes of a
//! stream for their receive. It is used again, so that its lines stay in the cache and nothing is
//! allocated where what comes is soon taken.

use bowline_base::view::View;

/// Rooms without a payload.
#[derive(Debug)]
pub(crate) struct Rooms {
    free: Vec<Vec<u8>>,
    /// Most rooms that are kept, and the longest.
    most: usize,
    longest: usize,
}

impl Rooms {
    pub(crate) const fn new(most: usize, longest: usize) -> Self {
        Self { free: Vec::new(), most, longest }
    }

    /// A room with the bytes of `payload`.
    #[inline]
    pub(crate) fn filled(&mut self, payload: View<'_>) -> Vec<u8> {
        let mut room = self.free.pop().unwrap_or_default();
        payload.append_to(&mut room);
        room
    }

    /// Takes a room back.
    #[inline]
    pub(crate) fn keep(&mut self, mut room: Vec<u8>) {
        if (1..=self.longest).contains(&room.capacity()) && self.free.len() < self.most {
            room.clear();
            self.free.push(room);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rooms_are_used_again_within_bounds() {
        let mut rooms = Rooms::new(1, 1000);
        let room = vec![5; 100];
        let address = room.as_ptr();
        rooms.keep(room);
        // Too long, none at all, and one too many.
        rooms.keep(Vec::with_capacity(1001));
        rooms.keep(Vec::new());
        rooms.keep(Vec::with_capacity(10));
        assert_eq!(rooms.free.len(), 1);
        let again = rooms.filled(View::empty());
        assert_eq!((again.as_ptr(), again.len()), (address, 0));
    }
}
