//! Exchanges of blocks of which each has an element type of its own. (MPI: Collective Communication, "All-to-All
//! Scatter/Gather", `MPI_ALLTOALLW`; and `MPI_NEIGHBOR_ALLTOALLW`.)
//!
//! A block is a slice, or a vector in a persistent exchange, whose type is known no more. Where it lies is its own
//! business: blocks need not be parts of one buffer. What two ranks exchange has one length in bytes, as for all
//! collectives; that they mean the same elements is theirs to see to.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;

use super::items::{data, read, written};
use super::raw::{Data, Now};
use crate::comm::Communicator;
use crate::datatype::Datatype;
use crate::error::MpiError;
use crate::error::length;
use crate::handles::OwnedItems;

/// Elements of any type that are sent to one rank or neighbour: made of a slice by `into`.
#[derive(Debug)]
pub struct Block<'a> {
    data: Data,
    items: PhantomData<&'a [u8]>,
}

/// Elements of any type that are received from one rank or neighbour: made of a slice by `into`.
#[derive(Debug)]
pub struct BlockMut<'a> {
    data: Data,
    items: PhantomData<&'a mut [u8]>,
}

impl<'a, T: Datatype> From<&'a [T]> for Block<'a> {
    fn from(items: &'a [T]) -> Self {
        Self { data: read(items), items: PhantomData }
    }
}

impl<'a, T: Datatype> From<&'a mut [T]> for BlockMut<'a> {
    fn from(items: &'a mut [T]) -> Self {
        Self { data: written(items), items: PhantomData }
    }
}

/// Elements of any type that a persistent exchange owns: made of a vector by `into`.
pub struct OwnedBlock {
    /// The [`OwnedItems`] of some type.
    items: Box<dyn Any>,
    data: Data,
}

impl<T: Datatype> From<Vec<T>> for OwnedBlock {
    fn from(items: Vec<T>) -> Self {
        let items = OwnedItems::new(items);
        let (start, count) = items.memory();
        Self { data: data(start, count), items: Box::new(items) }
    }
}

impl OwnedBlock {
    /// The vector; the block where that has elements of another type.
    ///
    /// # Errors
    /// The block, unchanged.
    pub fn into_items<T: Datatype>(self) -> Result<Vec<T>, Self> {
        match self.items.downcast::<OwnedItems<T>>() {
            Ok(items) => Ok(items.into_vec()),
            Err(items) => Err(Self { items, ..self }),
        }
    }

    pub(crate) fn data(&self) -> Data {
        self.data.clone()
    }

    pub(crate) fn items<T: Datatype>(&self) -> Option<&OwnedItems<T>> {
        self.items.downcast_ref()
    }

    pub(crate) fn items_mut<T: Datatype>(&mut self) -> Option<&mut OwnedItems<T>> {
        self.items.downcast_mut()
    }
}

impl fmt::Debug for OwnedBlock {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("OwnedBlock").field("data", &self.data).finish_non_exhaustive()
    }
}

/// The elements of blocks, of which each partner must have one.
pub(crate) fn sent<'a>(
    blocks: impl IntoIterator<Item = Block<'a>>,
    partners: usize,
) -> Result<Vec<Data>, MpiError> {
    let blocks: Vec<Data> = blocks.into_iter().map(|block| block.data).collect();
    length("the blocks to be sent", partners, blocks.len())?;
    Ok(blocks)
}

/// The same of those that are received.
pub(crate) fn received<'a>(
    blocks: impl IntoIterator<Item = BlockMut<'a>>,
    partners: usize,
) -> Result<Vec<Data>, MpiError> {
    let blocks: Vec<Data> = blocks.into_iter().map(|block| block.data).collect();
    length("the blocks to be received", partners, blocks.len())?;
    Ok(blocks)
}

impl Communicator {
    /// Exchanges blocks, of which each has its own length and type: rank r gets the r-th of `send`, and the r-th of
    /// `receive` comes from it. (`MPI_Alltoallw`)
    ///
    /// ```no_run
    /// # use bowline_mpi::{Communicator, MpiError};
    /// # fn exchange(pair: &Communicator) -> Result<(), MpiError> {
    /// let (numbers, text) = ([1.5_f64, 2.5], *b"to rank 1");
    /// let (mut own, mut answer) = ([0.0_f64; 2], [0_u8; 9]);
    /// pair.alltoallw(
    ///     [numbers[..].into(), text[..].into()],
    ///     [(&mut own[..]).into(), (&mut answer[..]).into()],
    /// )
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`MpiError::InvalidLength`] unless there is one block for each rank; [`MpiError::CountMismatch`] when partners
    /// give different lengths; a member's failure.
    pub fn alltoallw<'a>(
        &self,
        send: impl IntoIterator<Item = Block<'a>>,
        receive: impl IntoIterator<Item = BlockMut<'a>>,
    ) -> Result<(), MpiError> {
        let size = self.inner.size as usize;
        let (from, into) = (sent(send, size)?, received(receive, size)?);
        // SAFETY: all blocks are borrowed for `'a`, which is longer than the call; those that are received exclusively,
        // so that no two overlap.
        unsafe { self.alltoallv_data(Now, Some(from), into) }
    }

    /// Exchanges blocks with the neighbours, of which each has its own length and type: the n-th neighbour gets the n-th
    /// of `send`, and the n-th of `receive` comes from it. (`MPI_Neighbor_alltoallw`)
    ///
    /// # Errors
    /// [`MpiError::InvalidLength`] unless there is one block for each neighbour; else as for
    /// [`neighbor_alltoallv`](Self::neighbor_alltoallv).
    pub fn neighbor_alltoallw<'a>(
        &self,
        send: impl IntoIterator<Item = Block<'a>>,
        receive: impl IntoIterator<Item = BlockMut<'a>>,
    ) -> Result<(), MpiError> {
        let (indegree, outdegree) = self.neighbor_degrees()?;
        let (from, into) = (sent(send, outdegree)?, received(receive, indegree)?);
        // SAFETY: as in `alltoallw`.
        unsafe { self.neighbor_alltoallv_data(Now, from, into) }
    }
}
