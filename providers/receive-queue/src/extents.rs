//! Memory of a lane for what each peer needs that comes: an introduction for a sender, two words for a link. It
//! grows with those that are there, not with those that might come.
//!
//! ```text
//!   places 0 .. first                 in the lane's own memory, see `layout`
//!   first * 2^k .. first * 2^(k+1)    extent k: memory of its own, which has a key of its own
//! ```
//!
//! 1. An extent is made when the first of its places is wanted, and stays. So of the places that there are, those
//!    beyond `first` are less than twice those that are used.
//! 2. Who takes a number finds the extent of its record in the *directory* (`layout`), an entry for each extent that has
//!    been made. It reads it by gets until it is there, which is after the next progress of the receiver.
//! 3. A link's words are named to its peer by the introduction: the number of the place, and where it is in
//!    an extent, its start and key.
//! 4. Where there is no memory for an extent, the directory says so, and those that wait for it are refused.

use bowline_base::sync::atomic::AtomicU64;
use bowline_base::view::View;
use bowline_uct::{EpId, MemError, MemHandle, RemoteSlice};

use super::address::ExtentEntry;
use super::lane_core::LaneCore;
use super::layout::{ENTRY_BYTES, Place, Places, RECORD_BYTES, RECORDS, WORDS};
use super::link::{Link, PeerExtent};
use super::shown::Shown;

/// The words of a link: reservations begun and ended (see `settle`), and its route (see `route`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkWord {
    Status = 0,
    Route = 8,
}

impl LaneCore {
    /// Makes the extents up to that with the words of `link`.
    pub(super) fn extend_words(&mut self, link: u32) -> Result<(), MemError> {
        let Place::Extent { number, .. } = WORDS.place(link) else { return Ok(()) };
        while self.words.len() <= number {
            let bytes = WORDS.extent_bytes(self.words.len());
            let shown = Shown::new(&mut *self.inner, bytes)?;
            self.words.push(shown);
            self.attr.receive_bytes += bytes;
        }
        Ok(())
    }

    /// Makes the extents up to that with the record of `sender`, and says in the directory where they are. `false`: there
    /// is no memory.
    pub(super) fn extend_records(&mut self, sender: u32) -> bool {
        let Place::Extent { number, .. } = RECORDS.place(sender) else { return true };
        while self.records.len() <= number && !self.no_records {
            let extent = self.records.len();
            let bytes = RECORDS.extent_bytes(extent);
            let entry = match Shown::new(&mut *self.inner, bytes) {
                Ok(shown) => {
                    let entry = ExtentEntry { base: shown.base, key: shown.key.clone() };
                    self.records.push(shown);
                    self.attr.receive_bytes += bytes;
                    entry
                }
                Err(error) => {
                    tracing::warn!(
                        "no memory for more senders to a receive queue, which are refused: {error}"
                    );
                    self.no_records = true;
                    ExtentEntry::REFUSED
                }
            };
            let at = self.shape.directory_at(extent);
            let view = self.inner.mem_view(self.memory);
            if let Some(place) = view.and_then(|view| view.slice(at, ENTRY_BYTES)) {
                place.copy_in(&entry.pack());
            }
        }
        number < self.records.len()
    }

    /// All memory that is shown to peers: start and bytes of each piece.
    pub(super) fn shown(&self) -> impl Iterator<Item = (MemHandle, u64, usize)> {
        let piece = |places: Places| {
            move |(at, one): (usize, &Shown)| (one.memory, one.base, places.extent_bytes(at))
        };
        let own = (self.memory, self.base, self.shape.bytes());
        let words = self.words.iter().enumerate().map(piece(WORDS));
        let records = self.records.iter().enumerate().map(piece(RECORDS));
        std::iter::once(own).chain(words).chain(records)
    }

    /// A word of one of our links, which its peer reads or writes.
    pub(super) fn own_word(&self, link: u32, which: LinkWord) -> Option<&AtomicU64> {
        let (memory, at) = match WORDS.place(link) {
            Place::Own(at) => (self.memory, self.shape.words_at() + at),
            Place::Extent { number, at } => (self.words.get(number)?.memory, at),
        };
        self.inner.mem_view(memory)?.word(at + which as usize)
    }

    /// The record of a sender.
    pub(super) fn own_record(&self, sender: u32) -> Option<View<'_>> {
        let (memory, at) = match RECORDS.place(sender) {
            Place::Own(at) => (self.memory, self.shape.records_at() + at),
            Place::Extent { number, at } => (self.records.get(number)?.memory, at),
        };
        self.inner.mem_view(memory)?.slice(at, RECORD_BYTES)
    }

    /// Start and key of the extent with the words of our `link`; none where they are in the lane's own memory.
    pub(super) fn extent_of_words(&self, link: u32) -> Option<ExtentEntry> {
        let Place::Extent { number, .. } = WORDS.place(link) else { return None };
        let shown = self.words.get(number)?;
        Some(ExtentEntry { base: shown.base, key: shown.key.clone() })
    }

    /// Where the peer of `index` has a word of its link `number`.
    pub(super) fn peers_word(
        &mut self,
        index: u32,
        number: u32,
        which: LinkWord,
    ) -> Option<(EpId, RemoteSlice)> {
        let link = &mut self.links[index as usize];
        let ep = link.inner?;
        let (base, rkey, at) = match WORDS.place(number) {
            Place::Own(at) => (link.base, link.rkey?, link.shape.words_at() + at),
            Place::Extent { number, at } => {
                let extent = link.extents.iter_mut().find(|extent| extent.number == number)?;
                if extent.rkey.is_none() {
                    extent.rkey = self.inner.rkey_unpack(ep, &extent.key).ok();
                }
                (extent.base, extent.rkey?, at)
            }
        };
        let address = base.checked_add((at + which as usize) as u64)?;
        Some((ep, RemoteSlice { address, rkey }))
    }
}

impl Link {
    /// Its endpoint is another one: keys have to be opened again.
    pub(super) fn close_extents(&mut self) {
        for extent in &mut self.extents {
            extent.rkey = None;
        }
    }

    /// The peer has the words of its link `status` in this extent of its memory. `false`: it says nothing of it.
    pub(super) fn note_extent(&mut self, status: u32, extent: Option<ExtentEntry>) -> bool {
        match (WORDS.place(status), extent) {
            (Place::Own(_), _) => true,
            (Place::Extent { .. }, None) => false,
            (Place::Extent { number, .. }, Some(ExtentEntry { base, key })) => {
                self.extents.retain(|known| known.number != number);
                self.extents.push(PeerExtent { number, base, key, rkey: None });
                true
            }
        }
    }
}
