//! How a rank waits for what others store in shared memory: it yields, and then sleeps until a message wakes it.
//!
//! What the rules of [`shared`](super) say of sleepers holds here, whatever the memory is.

use std::time::{Duration, Instant};

use bowline_base::buffer::RecvBuf;

use super::Broken;
use crate::comm::CommInner;
use crate::error::MpiError;

/// Longest time between two checks of everything by a sleeper.
const CHECK_PERIOD: Duration = Duration::from_millis(500);

/// Quick checks between two checks of everything, of a rank that yields.
const CHECK_EVERY: u32 = 1 << 14;

/// What a rank waits for.
pub(super) trait Awaited {
    /// The member of the communicator whose part it is, if it is one's.
    fn of(&self) -> Option<u32> {
        None
    }

    /// Whether the waiting is over: a quick check, after which the caller finds out how it ended.
    fn is_over(&self) -> bool;

    /// The same after a check of everything.
    fn poll(&self) -> Result<bool, Broken>;

    /// Announces that this rank sleeps for it.
    fn announce(&self) -> Result<(), MpiError>;

    /// Takes the announcement back; `false` when another rank has.
    fn withdraw(&self) -> Result<bool, MpiError>;
}

/// Waits until it is over. A message with `tag` wakes this rank.
pub(super) fn wait(comm: &CommInner, tag: u64, what: &impl Awaited) -> Result<(), Broken> {
    let (mut checks, mut found) = (0_u32, Ok(false));
    let ended = || {
        checks = checks.wrapping_add(1);
        comm.process.advance();
        if !checks.is_multiple_of(CHECK_EVERY) {
            return what.is_over();
        }
        // Rule 2.
        found = what.poll();
        !matches!(found, Ok(false))
    };
    let of = what.of().and_then(|rank| comm.group.world_rank(rank));
    comm.process.worker.yield_until(of, ended);
    let mut is_over = found?;
    // A message that nobody had to send may wake a sleeper for nothing.
    while !is_over && !what.is_over() {
        is_over = sleep(comm, tag, what)?;
    }
    Ok(())
}

/// Sleeps until something happens; whether a check has found that the waiting is over.
#[cold]
fn sleep(comm: &CommInner, tag: u64, what: &impl Awaited) -> Result<bool, Broken> {
    let worker = &comm.process.worker;
    // Rule 1.
    what.announce()?;
    let id = match worker.recv(comm.stage_spec(None, tag), RecvBuf::empty()) {
        Ok(id) => id,
        Err(error) => {
            what.withdraw()?;
            return Err(MpiError::from(error).into());
        }
    };
    let (mut checked, mut found) = (Instant::now(), Ok(false));
    worker.wait_until_within(CHECK_PERIOD, || {
        comm.process.advance();
        if worker.is_complete(id) || what.is_over() {
            return true;
        }
        if checked.elapsed() < CHECK_PERIOD {
            return false;
        }
        // Rule 2.
        checked = Instant::now();
        found = what.poll();
        !matches!(found, Ok(false))
    });
    let withdrawn = what.withdraw();
    if found.is_err() || !matches!(withdrawn, Ok(false)) {
        // No message comes, or none that is of use.
        worker.cancel(id);
    } else {
        // The rank that took the announcement back is about to send, unless that was a stray write.
        let asked = Instant::now();
        worker.wait_until_within(CHECK_PERIOD, || {
            worker.is_complete(id) || asked.elapsed() >= CHECK_PERIOD
        });
    }
    if !worker.is_complete(id) {
        worker.detach(id);
    } else if let Err(error) = comm.process.wait(id).outcome
        && error != bowline_ucp::OpError::Cancelled
    {
        return Err(MpiError::from(error).into());
    }
    withdrawn?;
    found
}
