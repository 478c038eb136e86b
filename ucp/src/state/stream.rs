//! What a worker knows of the streams with its peers. The rules are in [`crate::stream`].

use std::collections::VecDeque;

use bowline_base::buffer::RecvBuf;
use bowline_base::slab::Key;
use bowline_base::view::View;

use crate::buffer_pool::BufferPool;
use crate::error::OpError;
use crate::peer::PeerIndex;
use crate::select::Measure;
use crate::wire::Rts;

/// Data that waits is joined to what waits before it up to this many bytes.
const JOINED: usize = 64 << 10;

/// Longest send that goes as an envelope: its receiver may need as much memory. Longer ones go in
/// pieces.
pub(crate) const MAX_REMOTE: usize = 1 << 30;

/// A part of a stream that nobody has taken.
#[derive(Debug)]
pub(crate) enum Chunk {
    /// Bytes.
    Here {
        bytes: Vec<u8>,
        /// Where those begin that nobody has taken.
        from: usize,
        /// They came without being asked for, and count in [`crate::unasked`].
        eager: bool,
    },
    /// With the sender.
    There(Box<Rts>),
}

/// What a worker knows of its stream with a peer.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    pub(crate) chunks: VecDeque<Chunk>,
    pub(crate) receives: VecDeque<Key>,
    /// The receive into which a chunk is being read, and whether it is one of the engine's own.
    pub(crate) fetching: Option<(Key, bool)>,
    /// Sends without credit.
    pub(crate) parked: VecDeque<Key>,
    /// Active messages without credit, and those behind them: the bytes of a stream may hold all of it,
    /// and what lets their reader go on must not stand behind a message that waits for that.
    pub(crate) parked_ams: VecDeque<Key>,
    /// Why nothing can be received behind the chunks.
    pub(crate) error: Option<OpError>,
    /// It stands in the list of those that have data.
    pub(crate) listed: bool,
    /// The long send whose pieces are coming, its length, and the bytes of its first piece.
    pub(crate) measured: Option<(Measure, u64, u64)>,
    /// Among its receives is one of nothing, or was since there was none.
    pub(crate) wants_nothing: bool,
}

impl Stream {
    /// Bytes that are here in front of the first chunk that is not.
    pub(crate) fn available(&self) -> usize {
        let here = self.chunks.iter().map_while(|chunk| match chunk {
            Chunk::Here { bytes, from, .. } => Some(bytes.len() - from),
            Chunk::There(_) => None,
        });
        here.sum()
    }

    /// Moves `count` bytes that are here to `buffer` from `at` on. Returns how many of them had come
    /// without being asked for.
    pub(crate) fn drain(
        &mut self,
        mut count: usize,
        buffer: &mut RecvBuf,
        mut at: usize,
        pool: &mut BufferPool,
    ) -> usize {
        let mut unasked = 0;
        while count > 0 {
            let Some(Chunk::Here { bytes, from, eager }) = self.chunks.front_mut() else { break };
            let n = count.min(bytes.len() - *from);
            unasked += if *eager { n } else { 0 };
            buffer.write_at(at, &bytes[*from..*from + n]);
            (at, count) = (at + n, count - n);
            *from += n;
            if *from == bytes.len()
                && let Some(Chunk::Here { bytes, .. }) = self.chunks.pop_front()
            {
                pool.release(bytes);
            }
        }
        unasked
    }

    /// Drops the chunks from `at` on. Returns the bytes among them that had come without being asked
    /// for, and how many lay with their sender.
    pub(crate) fn cut(&mut self, at: usize) -> (usize, u64) {
        let (mut unasked, mut envelopes) = (0, 0);
        for chunk in self.chunks.drain(at.min(self.chunks.len())..) {
            match chunk {
                Chunk::Here { bytes, from, eager: true } => unasked += bytes.len() - from,
                Chunk::Here { .. } => {}
                Chunk::There(_) => envelopes += 1,
            }
        }
        (unasked, envelopes)
    }

    pub(crate) fn add(&mut self, data: View<'_>, pool: &mut BufferPool) {
        if data.is_empty() {
            return;
        }
        // One that is not eager keeps the place of what is being read, or has been read.
        if let Some(Chunk::Here { bytes, eager: true, .. }) = self.chunks.back_mut()
            && bytes.len() + data.len() <= JOINED
        {
            data.append_to(bytes);
            return;
        }
        self.chunks.push_back(Chunk::Here { bytes: pool.copy_in(data), from: 0, eager: true });
    }

    /// Whether what comes next goes straight into a receive.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.chunks.is_empty() && self.fetching.is_none() && !self.receives.is_empty()
    }

    /// Whether some of it is being read.
    pub(crate) const fn is_read(&self) -> bool {
        self.fetching.is_some()
    }

    /// Whether nobody has taken all that came.
    pub(crate) fn is_left(&self) -> bool {
        !self.chunks.is_empty()
    }

    /// Whether anything waits to be received.
    pub(crate) fn has_data(&self) -> bool {
        !self.chunks.is_empty() && self.fetching.is_none()
    }
}

/// All streams of a worker.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    pub(crate) by_peer: Vec<Option<Box<Stream>>>,
    /// Chunks that are being read.
    pub(crate) fetches: usize,
    /// Peers whose streams have, or had, data.
    pub(crate) ready: VecDeque<PeerIndex>,
}

impl Streams {
    #[inline]
    pub(crate) fn get_mut(&mut self, peer: PeerIndex) -> Option<&mut Stream> {
        self.by_peer.get_mut(peer as usize)?.as_deref_mut()
    }

    #[inline]
    pub(crate) fn make(&mut self, peer: PeerIndex) -> &mut Stream {
        let index = peer as usize;
        if index >= self.by_peer.len() {
            self.by_peer.resize_with(index + 1, || None);
        }
        self.by_peer[index].get_or_insert_default()
    }

    /// Peers whose streams have bytes that nobody has taken, or that are being read.
    pub(crate) fn peers(&self) -> impl Iterator<Item = (PeerIndex, &Stream)> {
        let streams = (0..).zip(&self.by_peer);
        streams.filter_map(|(peer, stream)| Some((peer, stream.as_deref()?)))
    }

    /// The peer's stream is nobody's any more; nothing of it is being read.
    pub(crate) fn forget(&mut self, peer: PeerIndex) {
        if let Some(stream) = self.by_peer.get_mut(peer as usize).and_then(Option::take)
            && stream.listed
        {
            self.ready.retain(|&ready| ready != peer);
        }
    }

    pub(crate) fn list(&mut self, peer: PeerIndex) {
        let stream = self.make(peer);
        if stream.has_data() && !std::mem::replace(&mut stream.listed, true) {
            self.ready.push_back(peer);
        }
    }
}
