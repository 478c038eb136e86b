//! A persistent exchange of blocks of which each has an element type of its own.

use std::rc::Rc;

use super::Held;
use crate::coll::calls::length;
use crate::coll::mixed::OwnedBlock;
use crate::coll::raw::Again;
use crate::comm::Communicator;
use crate::datatype::Datatype;
use crate::error::MpiError;

/// An exchange of blocks that is carried out as often as it is started, as
/// [`PersistentCollective`](super::PersistentCollective) is. Blocks are named by the rank that they go to or come from,
/// and by the type of their elements.
#[derive(Debug)]
pub struct PersistentExchange(pub(super) Box<Held<(Vec<OwnedBlock>, Vec<OwnedBlock>)>>);

impl Communicator {
    /// Makes an exchange of blocks of which each has its own length and type, one for each rank. (`MPI_Alltoallw_init`)
    ///
    /// # Errors
    /// [`MpiError::InvalidLength`]; [`MpiError::CountMismatch`] when the own blocks differ in length;
    /// [`MpiError::BeyondReach`]. The blocks are dropped then.
    pub fn alltoallw_init(
        &self,
        send: Vec<OwnedBlock>,
        receive: Vec<OwnedBlock>,
    ) -> Result<PersistentExchange, MpiError> {
        let size = self.inner.size as usize;
        length("the blocks to be sent", size, send.len())?;
        length("the blocks to be received", size, receive.len())?;
        let data = |blocks: &[OwnedBlock]| blocks.iter().map(OwnedBlock::data).collect();
        // SAFETY: the blocks' memory stays as long as the run may use it, and nobody gets at it meanwhile: see `Held`.
        let run = unsafe { self.alltoallv_data(Again, Some(data(&send)), data(&receive)) }?;
        let process = Rc::clone(&self.inner.process);
        Ok(PersistentExchange(Held::new(run, (send, receive), process)))
    }
}

impl PersistentExchange {
    /// Starts it. (`MPI_Start`)
    ///
    /// # Errors
    /// [`MpiError::CollectiveActive`] when it is active already.
    pub fn start(&mut self) -> Result<(), MpiError> {
        self.0.start()
    }

    /// Waits for its end; an inactive one has ended. (`MPI_Wait`)
    ///
    /// # Errors
    /// Those of [`alltoallw`](Communicator::alltoallw). It is inactive then, and what was received is anything.
    pub fn wait(&mut self) -> Result<(), MpiError> {
        self.0.wait()
    }

    /// Whether it has ended; an inactive one has. Makes progress. (`MPI_Test`)
    ///
    /// # Errors
    /// As for [`wait`](Self::wait), when it has ended so.
    pub fn test(&mut self) -> Result<bool, MpiError> {
        self.0.has_ended()
    }

    /// Whether it was started and its end was not reported yet.
    pub fn is_active(&self) -> bool {
        self.0.run.is_active()
    }

    /// What is sent to `rank`, to be written. `None` where it has elements of another type, or there is no such rank.
    ///
    /// # Errors
    /// [`MpiError::CollectiveActive`].
    pub fn input_mut<T: Datatype>(&mut self, rank: usize) -> Result<Option<&mut [T]>, MpiError> {
        let block = self.0.inactive_mut()?.0.get_mut(rank).and_then(OwnedBlock::items_mut);
        // SAFETY: the run is not under way, and is started through `&mut self` only.
        Ok(block.map(|items| unsafe { items.items_mut() }))
    }

    /// What was received from `rank`. `None` as for [`input_mut`](Self::input_mut).
    ///
    /// # Errors
    /// [`MpiError::CollectiveActive`].
    pub fn output<T: Datatype>(&self, rank: usize) -> Result<Option<&[T]>, MpiError> {
        let block = self.0.inactive()?.1.get(rank).and_then(OwnedBlock::items);
        // SAFETY: as in `input_mut`.
        Ok(block.map(|items| unsafe { items.items() }))
    }

    /// Ends its use and gives the blocks back, those that were sent first. (`MPI_Request_free`)
    ///
    /// # Errors
    /// The exchange, unchanged, while it is active.
    pub fn into_blocks(mut self) -> Result<(Vec<OwnedBlock>, Vec<OwnedBlock>), Self> {
        match self.0.inactive_mut() {
            Ok(blocks) => Ok(std::mem::take(blocks)),
            Err(_) => Err(self),
        }
    }
}
