//! Collectives on vectors of different lengths, with the counts exchanged first.

use bowline::mpi::{Datatype, MpiError, Partition, World};

/// Sends the first `counts[0]` items to rank 0, the next `counts[1]` to rank 1, and so on.
/// Returns what came, in order of ranks, and how much from each. Collective.
///
/// # Errors
/// A rank's failure.
pub(crate) fn exchange<T: Datatype + Default>(
    world: &World,
    items: &[T],
    counts: &[usize],
) -> Result<(Vec<T>, Vec<usize>), MpiError> {
    let mut incoming = vec![0; counts.len()];
    world.alltoall(counts, &mut incoming)?;
    let mut received = vec![T::default(); incoming.iter().sum()];
    deliver(world, items, counts, &mut received, &incoming)?;
    Ok((received, incoming))
}

/// [`exchange`] where every rank knows what it receives.
///
/// # Errors
/// A rank's failure.
pub(crate) fn deliver<T: Datatype>(
    world: &World,
    items: &[T],
    counts: &[usize],
    received: &mut [T],
    incoming: &[usize],
) -> Result<(), MpiError> {
    let (from, into) = (starts(counts), starts(incoming));
    let send = Partition::new(counts, &from);
    world.alltoallv(items, send, received, Partition::new(incoming, &into))
}

/// The items of all ranks, in order of ranks, at every rank. Collective.
///
/// # Errors
/// A rank's failure.
pub(crate) fn collect_all<T: Datatype + Default>(
    world: &World,
    items: &[T],
) -> Result<Vec<T>, MpiError> {
    let mut counts = vec![0; world.size() as usize];
    world.allgather(&[items.len()], &mut counts)?;
    let mut all = vec![T::default(); counts.iter().sum()];
    world.allgatherv(items, &mut all, Partition::new(&counts, &starts(&counts)))?;
    Ok(all)
}

/// The items of all ranks, in order of ranks, at rank 0; nothing elsewhere. Collective.
///
/// # Errors
/// A rank's failure.
pub(crate) fn collect<T: Datatype + Default>(
    world: &World,
    items: &[T],
) -> Result<Vec<T>, MpiError> {
    let mut counts = vec![0; world.size() as usize];
    world.allgather(&[items.len()], &mut counts)?;
    let wanted = if world.rank() == 0 { counts.iter().sum() } else { 0 };
    let mut all = vec![T::default(); wanted];
    world.gatherv(items, &mut all, Partition::new(&counts, &starts(&counts)), 0)?;
    Ok(all)
}

/// Where each of several parts of these lengths begins.
pub(crate) fn starts(counts: &[usize]) -> Vec<usize> {
    let sums = counts.iter().scan(0, |next, count| {
        let start = *next;
        *next += count;
        Some(start)
    });
    sums.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_arrives_where_it_belongs() {
        bowline::threads(3, |world| {
            let rank = world.rank() as u64;
            // Rank r sends r + k items to rank k.
            let counts: Vec<_> = (0..3).map(|k| rank as usize + k).collect();
            let items: Vec<u64> =
                (0..3).flat_map(|k| vec![10 * rank + k; counts[k as usize]]).collect();
            let (received, incoming) = exchange(&world, &items, &counts).unwrap();
            let expected: Vec<u64> =
                (0..3).flat_map(|from| vec![10 * from + rank; (from + rank) as usize]).collect();
            assert_eq!(received, expected);
            assert_eq!(incoming, [rank as usize, rank as usize + 1, rank as usize + 2]);
            let all = collect_all(&world, &vec![rank; rank as usize]).unwrap();
            assert_eq!(all, [1, 2, 2]);
            let at_root = collect(&world, &[rank]).unwrap();
            assert_eq!(at_root, if rank == 0 { vec![0, 1, 2] } else { vec![] });
        })
        .unwrap();
    }
}
