//! Addresses of many workers of whom few are ever talked to.
//!
//! An endpoint costs some hundred bytes here and more in its transport, an address about two hundred. A
//! worker in a job of a million ranks talks to a few dozen of them: so it is given a *book*, which has
//! the addresses, and makes an endpoint when one is first asked for. For a peer that is silent it holds
//! nothing.
//!
//! A book may be anything that finds an address: a launcher's key-value store, memory that the ranks of
//! a node share, or an [`AddressTable`], which holds addresses in memory of its own and can be shared
//! by the workers of a process. In the table up to 1024 neighbours whose addresses are of one length share
//! what is alike in them: `block.rs` says how. Ranks in a row differ by their rank, which is stored
//! relative to the place in the table, and so costs nothing where the table is in the order of ranks.

mod block;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use block::Block;

use crate::peer::Ep;

/// Most addresses of a block.
const BLOCK: usize = 1024;

/// Where an address has the rank: behind magic, version, features and job.
const RANK: std::ops::Range<usize> = 18..22;

/// Finds addresses.
pub trait AddressBook: Send + Sync {
    /// The address with this number; `None` if there is none.
    fn address(&self, index: u32) -> Option<Cow<'_, [u8]>>;
}

/// What a worker knows of its book.
#[derive(Default)]
pub(crate) struct Book {
    pub(crate) book: Option<Arc<dyn AddressBook>>,
    /// Endpoints that were asked for.
    pub(crate) made: HashMap<u32, Ep>,
}

impl std::fmt::Debug for Book {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Book").field("made", &self.made.len()).finish_non_exhaustive()
    }
}

/// Addresses that share what is alike in them.
#[derive(Debug, Default)]
pub struct AddressTable {
    /// With the number of the first address of each.
    blocks: Vec<(u32, Block)>,
    /// The last block, while it grows: whole addresses.
    open: Vec<Vec<u8>>,
    len: usize,
}

/// The address with its rank relative to `index`; `back` undoes that.
fn relative(address: &mut [u8], index: u32, back: bool) {
    let Some(field) = address.get_mut(RANK) else { return };
    let rank = u32::from_le_bytes([field[0], field[1], field[2], field[3]]);
    let rank = if back { rank.wrapping_add(index) } else { rank.wrapping_sub(index) };
    field.copy_from_slice(&rank.to_le_bytes());
}

impl AddressTable {
    /// Adds an address behind the others. Returns its number.
    ///
    /// # Panics
    /// When the table has 2^32 addresses, or the address is longer than 2^16 bytes.
    pub fn push(&mut self, address: &[u8]) -> u32 {
        assert!(address.len() <= usize::from(u16::MAX), "an address of 2^16 bytes");
        let index = u32::try_from(self.len).expect("fewer than 2^32 addresses");
        let mut relative_to = address.to_vec();
        relative(&mut relative_to, index, false);
        let fits = self.open.first().is_none_or(|first| first.len() == address.len());
        if !fits || self.open.len() == BLOCK {
            self.seal();
        }
        self.open.push(relative_to);
        self.len += 1;
        index
    }

    /// Number of addresses.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts the last addresses together too; for a table that is complete.
    pub fn finish(mut self) -> Self {
        self.seal();
        self.blocks.shrink_to_fit();
        self.open = Vec::new();
        self
    }

    /// Bytes of memory that the table holds.
    pub fn bytes(&self) -> usize {
        let blocks = self.blocks.iter().map(|(_, block)| block.bytes());
        let open: usize = self.open.iter().map(|address| address.capacity()).sum();
        blocks.sum::<usize>()
            + self.blocks.capacity() * size_of::<(u32, Block)>()
            + self.open.capacity() * size_of::<Vec<u8>>()
            + open
    }

    fn seal(&mut self) {
        let open = std::mem::take(&mut self.open);
        if !open.is_empty() {
            self.blocks.push(((self.len - open.len()) as u32, Block::new(&open)));
        }
    }

    /// The address with this number.
    pub fn get(&self, index: u32) -> Option<Vec<u8>> {
        let at = index as usize;
        let sealed = self.len - self.open.len();
        let mut address = if at >= sealed {
            self.open.get(at - sealed)?.clone()
        } else {
            let block = self.blocks.partition_point(|&(first, _)| first <= index).checked_sub(1)?;
            let (first, block) = self.blocks.get(block)?;
            block.get((index - first) as usize)
        };
        relative(&mut address, index, true);
        Some(address)
    }
}

impl AddressBook for AddressTable {
    fn address(&self, index: u32) -> Option<Cow<'_, [u8]>> {
        self.get(index).map(Cow::Owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::{LaneAddress, WorkerAddress};
    use proptest::prelude::*;

    fn address(rank: u32, lane: Vec<u8>) -> Vec<u8> {
        let lanes = vec![LaneAddress { provider: "shm".into(), address: lane }];
        WorkerAddress { job: 9, rank, incarnation: 0, uid: 5, features: 3, lanes }.pack()
    }

    #[test]
    fn neighbours_share_what_is_alike() {
        let mut table = AddressTable::default();
        for rank in 0..10_000_u32 {
            let mut lane = vec![7; 150];
            lane[30] = (rank % 251) as u8;
            assert_eq!(table.push(&address(rank, lane)), rank);
        }
        let table = table.finish();
        let each = table.bytes() as f64 / table.len() as f64;
        println!("{each:.2} bytes for an address of {}", address(0, vec![7; 150]).len());
        assert!(each < 4.0, "only one byte differs, yet {each}");
        for rank in [0, 255, 256, 9_999] {
            let parsed = WorkerAddress::parse(&table.get(rank).expect("it was pushed"));
            assert_eq!(parsed.expect("an address").rank, rank);
        }
        assert_eq!(table.get(10_000), None);
    }

    /// Addresses as processes of a job have them, 64 on a host: what names the host, process ids and ports
    /// that count up, start times that rise, an identifier twice, and random ones.
    #[test]
    fn only_what_is_random_costs_its_length() {
        let mut random = 1_u64;
        let mut next = || {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1_442_695_040_888_963);
            (random ^ random >> 29).to_le_bytes()
        };
        let mut table = AddressTable::default();
        let mut all = Vec::new();
        let mut host = [0; 24];
        for rank in 0..20_000_u32 {
            let local = rank % 64;
            if local == 0 {
                host.iter_mut().for_each(|byte| *byte = next()[0]);
            }
            let id = next();
            let mut lane = vec![7; 60];
            lane.extend(host);
            lane.extend((rank / 64 * 977 + 3000 + local).to_le_bytes());
            lane.extend(
                (u64::from(rank / 64) * 31 + 9_000_000 + u64::from(local / 5)).to_le_bytes(),
            );
            lane.extend(id);
            lane.extend(id);
            lane.extend((40_000_u16.wrapping_add(local as u16)).to_le_bytes());
            all.push(address(rank, lane));
            table.push(all.last().expect("just pushed"));
        }
        let table = table.finish();
        let each = table.bytes() as f64 / table.len() as f64;
        println!("{each:.2} bytes for an address of {}, 8 of them random", all[0].len());
        assert!(each < 18.0, "8 bytes are random, yet {each}");
        for (index, address) in all.iter().enumerate() {
            assert_eq!(table.get(index as u32).as_ref(), Some(address));
        }
    }

    proptest! {
        #[test]
        fn what_was_pushed_comes_back(
            all in proptest::collection::vec(
                prop_oneof![
                    proptest::collection::vec(any::<u8>(), 0..60),
                    proptest::collection::vec(0..2_u8, 40),
                    (0..9_u8, any::<u8>()).prop_map(|(few, any)| {
                        [few, any, few ^ 7, any.wrapping_add(3), few * 3, any, 1, 2].repeat(5)
                    }),
                ],
                0..1500,
            ),
            finish: bool,
        ) {
            let mut table = AddressTable::default();
            for (index, address) in all.iter().enumerate() {
                prop_assert_eq!(table.push(address) as usize, index);
            }
            if finish {
                table = table.finish();
            }
            prop_assert_eq!(table.len(), all.len());
            for (index, address) in all.iter().enumerate() {
                let back = table.get(index as u32);
                prop_assert_eq!(back.as_ref(), Some(address));
            }
            prop_assert_eq!(table.get(all.len() as u32), None);
        }
    }
}
