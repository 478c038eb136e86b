//! A persistent exchange of blocks of which each has an element type of its own.

use std::rc::Rc;

use super::Held;
use crate::coll::mixed::OwnedBlock;
use crate::coll::raw::{Again, Data};
use crate::coll::run::Run;
use crate::comm::Communicator;
use crate::datatype::Datatype;
use crate::error::MpiError;
use crate::error::length;

/// An exchange of blocks that is carried out as often as it is started, as
/// [`PersistentCollective`](super::PersistentCollective) is. Blocks are named by the number of the rank or neighbour that they
/// go to or come from, and by the type of their elements.
#[derive(Debug)]
pub struct PersistentExchange(pub(super) Box<Held<(Vec<OwnedBlock>, Vec<OwnedBlock>)>>);

impl Communicator {
    /// Makes an exchange of blocks of which each has its own length and type, one for each rank. (`MPI_Alltoallw_init`)
    ///
    /// # Errors
    /// [`MpiError::InvalidLength`]; [`MpiError::CountMismatch`] when the own blocks differ in length;
    /// [`MpiError::BeyondReach`], [`MpiError::NumberInUse`]. The blocks are dropped then.
    pub fn alltoallw_init(
        &self,
        send: Vec<OwnedBlock>,
        receive: Vec<OwnedBlock>,
    ) -> Result<PersistentExchange, MpiError> {
        let size = self.inner.size as usize;
        self.exchange_init((send, size), (receive, size), |from, into| {
            // SAFETY: see `exchange_init`.
            unsafe { self.alltoallv_data(Again, Some(from), into) }
        })
    }

    /// The same between neighbours: one block for each. (`MPI_Neighbor_alltoallw_init`)
    ///
    /// # Errors
    /// [`MpiError::NoTopology`], [`MpiError::InvalidGraph`], and those of [`alltoallw_init`](Self::alltoallw_init). The blocks
    /// are dropped then.
    pub fn neighbor_alltoallw_init(
        &self,
        send: Vec<OwnedBlock>,
        receive: Vec<OwnedBlock>,
    ) -> Result<PersistentExchange, MpiError> {
        let (indegree, outdegree) = self.neighbor_degrees()?;
        self.exchange_init((send, outdegree), (receive, indegree), |from, into| {
            // SAFETY: see `exchange_init`.
            unsafe { self.neighbor_alltoallv_data(Again, from, into) }
        })
    }

    /// Records an exchange of so many blocks. Their memory stays as long as the run may use it, and nobody gets at it
    /// meanwhile: see [`Held`].
    fn exchange_init(
        &self,
        (send, sent): (Vec<OwnedBlock>, usize),
        (receive, received): (Vec<OwnedBlock>, usize),
        record: impl FnOnce(Vec<Data>, Vec<Data>) -> Result<Rc<Run>, MpiError>,
    ) -> Result<PersistentExchange, MpiError> {
        length("the blocks to be sent", sent, send.len())?;
        length("the blocks to be received", received, receive.len())?;
        let data = |blocks: &[OwnedBlock]| blocks.iter().map(OwnedBlock::data).collect();
        let run = record(data(&send), data(&receive))?;
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
    /// Those of [`alltoallw`](Communicator::alltoallw) or
    /// [`neighbor_alltoallw`](Communicator::neighbor_alltoallw). It is inactive then, and what was received is anything.
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

    /// What is sent to `partner`, to be written. `None` where it has elements of another type, or there is no such
    /// partner.
    ///
    /// # Errors
    /// [`MpiError::CollectiveActive`].
    pub fn input_mut<T: Datatype>(&mut self, partner: usize) -> Result<Option<&mut [T]>, MpiError> {
        let block = self.0.inactive_mut()?.0.get_mut(partner).and_then(OwnedBlock::items_mut);
        // SAFETY: the run is not under way, and is started through `&mut self` only.
        Ok(block.map(|items| unsafe { items.items_mut() }))
    }

    /// What was received from `partner`, to be written: in place, that is what is sent to it. `None` as for
    /// [`input_mut`](Self::input_mut).
    ///
    /// # Errors
    /// [`MpiError::CollectiveActive`].
    pub fn output_mut<T: Datatype>(
        &mut self,
        partner: usize,
    ) -> Result<Option<&mut [T]>, MpiError> {
        let block = self.0.inactive_mut()?.1.get_mut(partner).and_then(OwnedBlock::items_mut);
        // SAFETY: as in `input_mut`.
        Ok(block.map(|items| unsafe { items.items_mut() }))
    }

    /// What was received from `partner`. `None` as for [`input_mut`](Self::input_mut).
    ///
    /// # Errors
    /// [`MpiError::CollectiveActive`].
    pub fn output<T: Datatype>(&self, partner: usize) -> Result<Option<&[T]>, MpiError> {
        let block = self.0.inactive()?.1.get(partner).and_then(OwnedBlock::items);
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
