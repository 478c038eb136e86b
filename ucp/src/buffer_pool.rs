//! A pool of buffers for payloads that wait for a short time: active messages for their handlers, bytes of a
//! stream for their receive. Buffers are used again, so that their lines stay in the cache and nothing is
//! allocated where payloads are soon taken.

use bowline_base::view::View;

/// Buffers that are free.
#[derive(Debug)]
pub(crate) struct BufferPool {
    free: Vec<Vec<u8>>,
    /// How many buffers are kept at most.
    most: usize,
    /// Buffers of more bytes are not kept.
    longest: usize,
}

impl BufferPool {
    pub(crate) const fn new(most: usize, longest: usize) -> Self {
        Self { free: Vec::new(), most, longest }
    }

    /// A buffer with the bytes of `payload`.
    #[inline]
    pub(crate) fn copy_in(&mut self, payload: View<'_>) -> Vec<u8> {
        let mut buffer = self.free.pop().unwrap_or_default();
        payload.append_to(&mut buffer);
        buffer
    }

    /// Takes a buffer back.
    #[inline]
    pub(crate) fn release(&mut self, mut buffer: Vec<u8>) {
        if (1..=self.longest).contains(&buffer.capacity()) && self.free.len() < self.most {
            buffer.clear();
            self.free.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_used_again_within_bounds() {
        let mut pool = BufferPool::new(1, 1000);
        let buffer = vec![5; 100];
        let address = buffer.as_ptr();
        pool.release(buffer);
        // Too long, none at all, and one too many.
        pool.release(Vec::with_capacity(1001));
        pool.release(Vec::new());
        pool.release(Vec::with_capacity(10));
        assert_eq!(pool.free.len(), 1);
        let again = pool.copy_in(View::empty());
        assert_eq!((again.as_ptr(), again.len()), (address, 0));
    }
}
