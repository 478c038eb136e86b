//! Members of a barrier that sum numbers, for the tests: how a caller uses the module.

use super::*;
use crate::sync::atomic::AtomicU32;

/// How a member's round went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Sum(u64),
    /// It sleeps until it is woken.
    #[cfg_attr(bowline_loom, expect(dead_code, reason = "models have their own"))]
    Asleep,
}

/// One bit for each member that was woken.
pub(super) type Woken = AtomicU32;

/// Enters with `number`; the sum, if this member is the last.
pub(super) fn enter<W: Words>(
    member: &mut BarrierMember,
    memory: &W,
    woken: &Woken,
    number: u64,
) -> Result<Option<u64>, StrayWrite> {
    if member.enter(memory, &number.to_le_bytes())? == BarrierPart::Waits {
        return Ok(None);
    }
    assert_eq!(member.lengths(memory)?, (8, 8));
    let mut rows = vec![0; member.ranks as usize * 8];
    member.inputs(memory, 0, 8, &mut rows)?;
    let numbers = rows.as_chunks::<8>().0.iter().map(|row| u64::from_le_bytes(*row));
    let sum = numbers.fold(0, u64::wrapping_add);
    if member.publish(memory, &sum.to_le_bytes()) {
        wake_sleepers(member, memory, woken);
    }
    Ok(Some(sum))
}

fn wake_sleepers<W: Words>(member: &BarrierMember, memory: &W, woken: &Woken) {
    for rank in (0..member.ranks).filter(|&rank| member.wakes(memory, rank)) {
        woken.fetch_or(1 << rank, Ordering::Relaxed);
    }
}

/// The sum, once the round has ended.
pub(super) fn taken<W: Words>(
    member: &mut BarrierMember,
    memory: &W,
) -> Result<Outcome, StrayWrite> {
    let mut out = [0; MAX_BYTES];
    match member.take(memory, &mut out)? {
        BarrierOutcome::Result(8) => {
            Ok(Outcome::Sum(u64::from_le_bytes(out[..8].try_into().unwrap())))
        }
        other => panic!("no sum of numbers: {other:?}"),
    }
}
