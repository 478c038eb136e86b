//! The world: all ranks of a job, as one of them sees it. Made from parts by the code that started the
//! ranks; what a launcher, a transport or a provider is, is not known here.

use std::ops::Deref;
use std::rc::Rc;

use bowline_ucp::SpaceOptions;

use crate::comm::agree::PROCESS_SPACE;
use crate::comm::{CommInner, Communicator};
use crate::context;
use crate::error::MpiError;
use crate::group::Group;
use crate::parts::WorldParts;
use crate::process::Process;
use crate::record::Record;

/// All ranks of a job (`MPI_COMM_WORLD`), which it dereferences to. (MPI: Process Initialization,
/// Creation, and Management, "The World Model".)
///
/// A rank's part of the job ends when the last of its communicators is dropped; messages that are
/// under way in the background are sent first.
#[derive(Clone, Debug)]
pub struct World {
    world: Communicator,
    own: Communicator,
}

impl World {
    /// Makes the world of one rank.
    ///
    /// # Errors
    /// [`MpiError::InvalidRank`] when the rank is outside the size or the size is 0 or above
    /// `i32::MAX`; what the worker reports when its first spaces are opened.
    pub fn from_parts(parts: WorldParts) -> Result<Self, MpiError> {
        let (rank, size) = (parts.rank, parts.size);
        if rank >= size || i32::try_from(size).is_err() {
            return Err(MpiError::InvalidRank { rank: rank as i32, size });
        }
        let oversubscribed = parts.oversubscribed;
        let process = Rc::new(Process::new(parts));
        let world = Group::strided(0, 1, size);
        let own = Group::strided(i64::from(rank), 1, 1);
        let options = SpaceOptions { members: Some(world.members()), ..SpaceOptions::default() };
        if process.worker.open_space(PROCESS_SPACE, options).is_err() {
            return Err(MpiError::TooManyCommunicators);
        }
        let open = |group, context, oversubscribed| {
            let agreed = context::Agreed { context, generation: 0, oversubscribed };
            CommInner::open(&process, group, agreed)
        };
        Ok(Self {
            world: open(world, context::WORLD, oversubscribed)?,
            own: open(own, context::OWN, false)?,
        })
    }

    /// Writes down from now on what this rank communicates, as lines of JSON. Once, before anything is sent. Buffered,
    /// and whole when the world has ended; what goes wrong is logged and ends the record.
    ///
    /// Every operation takes a little longer then, and the short path of sends is not taken.
    pub fn record(&self, out: Box<dyn std::io::Write>) {
        let process = &self.world.inner.process;
        let record = Record::new(out, self.world.inner.rank, self.world.inner.size);
        record.opened(self.world.inner.within());
        record.opened(self.own.inner.within());
        process.begin_record(record);
    }

    /// The communicator of all ranks.
    pub const fn communicator(&self) -> &Communicator {
        &self.world
    }

    /// The communicator of this rank alone (`MPI_COMM_SELF`).
    pub const fn own(&self) -> &Communicator {
        &self.own
    }
}

impl Deref for World {
    type Target = Communicator;

    #[inline]
    fn deref(&self) -> &Communicator {
        &self.world
    }
}
