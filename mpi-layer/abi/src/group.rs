//! Chapter: groups.

use std::ffi::c_int;

use bowline_mpi::{Comparison, MpiError};

use crate::arg::{In, Out, Text};
use crate::entry::mpi;
use crate::fault::{Fault, fault};
use crate::generated::constants::*;
use crate::handle::{Comm, Group, Session};
use crate::library::{library_of_session, sessions};

/// The elements of a list of the program.
fn list<T: Copy>(what: &str, n: c_int, list: In<T>) -> Result<Vec<T>, Fault> {
    let count = usize::try_from(n)
        .map_err(|_| fault(MPI_ERR_ARG, format!("the number of {what} is {n}")))?;
    if count > 0 && list.is_null() {
        return Err(fault(MPI_ERR_ARG, format!("there is no address of the {what}")));
    }
    list.array(count)
}

/// Ranges of the program: first, last and stride each.
fn ranges(n: c_int, ranges: In<[c_int; 3]>) -> Result<Vec<(i32, i32, i32)>, Fault> {
    let ranges = list("ranges", n, ranges)?;
    if let Some([first, last, _]) = ranges.iter().find(|[_, _, stride]| *stride == 0) {
        let text = format!("the range from {first} to {last} has stride 0");
        return Err(fault(MPI_ERR_ARG, text));
    }
    Ok(ranges.into_iter().map(|[first, last, stride]| (first, last, stride)).collect())
}

/// The error of a rank in a list, whose class is that of ranks.
#[cold]
fn wrong_rank(error: MpiError) -> Fault {
    fault(MPI_ERR_RANK, error.to_string())
}

/// How two things relate, as a number of the ABI.
pub(crate) fn relation(comparison: Comparison) -> c_int {
    match comparison {
        Comparison::Identical => MPI_IDENT,
        Comparison::Congruent => MPI_CONGRUENT,
        Comparison::Similar => MPI_SIMILAR,
        Comparison::Unequal => MPI_UNEQUAL,
    }
}

/// A rank, or what stands for none.
fn rank_or_undefined(rank: Option<u32>) -> c_int {
    rank.map_or(MPI_UNDEFINED, |rank| rank as c_int)
}

mpi! {
    fn MPI_Comm_group(comm: Comm, group: Out<Group>) on comm |mpi| {
        let object = mpi.comm(comm)?;
        mpi.groups.give(object.comm.group(), object.session.get(), group)
    }

    any fn MPI_Group_from_session_pset(session: Session, pset_name: Text, newgroup: Out<Group>)
        on session {
        sessions::check(session)?;
        let mpi = library_of_session()?;
        let members = match sessions::set_of(&pset_name.bytes()?)? {
            sessions::Set::World => &mpi.world,
            sessions::Set::Own => &mpi.own,
        };
        mpi.groups.give(members.comm.group(), Some(session), newgroup)
    }

    fn MPI_Group_size(group: Group, size: Out<c_int>) |mpi| {
        size.set(mpi.groups.get(group)?.size() as c_int)
    }

    fn MPI_Group_rank(group: Group, rank: Out<c_int>) |mpi| {
        let group = mpi.groups.get(group)?;
        rank.set(rank_or_undefined(group.position(mpi.world.comm.rank() as u32)))
    }

    fn MPI_Group_translate_ranks(group1: Group, n: c_int, ranks1: In<c_int>, group2: Group,
                                 ranks2: Out<c_int>) |mpi| {
        let (from, to) = (mpi.groups.get(group1)?, mpi.groups.get(group2)?);
        let ranks = list("ranks", n, ranks1)?;
        for (index, rank) in ranks.into_iter().enumerate() {
            let translated = match rank {
                MPI_PROC_NULL => MPI_PROC_NULL,
                _ => {
                    let world = u32::try_from(rank).ok().and_then(|rank| from.world_rank(rank));
                    let world = world.ok_or_else(|| {
                        let size = from.size();
                        fault(MPI_ERR_RANK, format!("rank {rank} is not in group1 of {size}"))
                    })?;
                    rank_or_undefined(to.position(world))
                }
            };
            ranks2.at(index).set(translated)?;
        }
        Ok(())
    }

    fn MPI_Group_compare(group1: Group, group2: Group, result: Out<c_int>) |mpi| {
        let (one, other) = (mpi.groups.get(group1)?, mpi.groups.get(group2)?);
        result.set(relation(one.compare(&other)))
    }

    fn MPI_Group_union(group1: Group, group2: Group, newgroup: Out<Group>) |mpi| {
        let (one, other) = (mpi.groups.get(group1)?, mpi.groups.get(group2)?);
        let session = mpi.groups.session_of(&[group1, group2]);
        mpi.groups.give(one.union(&other), session, newgroup)
    }

    fn MPI_Group_intersection(group1: Group, group2: Group, newgroup: Out<Group>) |mpi| {
        let (one, other) = (mpi.groups.get(group1)?, mpi.groups.get(group2)?);
        let session = mpi.groups.session_of(&[group1, group2]);
        mpi.groups.give(one.intersection(&other), session, newgroup)
    }

    fn MPI_Group_difference(group1: Group, group2: Group, newgroup: Out<Group>) |mpi| {
        let (one, other) = (mpi.groups.get(group1)?, mpi.groups.get(group2)?);
        let session = mpi.groups.session_of(&[group1, group2]);
        mpi.groups.give(one.difference(&other), session, newgroup)
    }

    fn MPI_Group_incl(group: Group, n: c_int, ranks: In<c_int>, newgroup: Out<Group>) |mpi| {
        let session = mpi.groups.session_of(&[group]);
        let (group, ranks) = (mpi.groups.get(group)?, list("ranks", n, ranks)?);
        mpi.groups.give(group.include(&ranks).map_err(wrong_rank)?, session, newgroup)
    }

    fn MPI_Group_excl(group: Group, n: c_int, ranks: In<c_int>, newgroup: Out<Group>) |mpi| {
        let session = mpi.groups.session_of(&[group]);
        let (group, ranks) = (mpi.groups.get(group)?, list("ranks", n, ranks)?);
        mpi.groups.give(group.exclude(&ranks).map_err(wrong_rank)?, session, newgroup)
    }

    fn MPI_Group_range_incl(group: Group, n: c_int, ranges: In<[c_int; 3]>, newgroup: Out<Group>)
        |mpi| {
        let session = mpi.groups.session_of(&[group]);
        let (group, ranges) = (mpi.groups.get(group)?, self::ranges(n, ranges)?);
        mpi.groups.give(group.include_ranges(&ranges).map_err(wrong_rank)?, session, newgroup)
    }

    fn MPI_Group_range_excl(group: Group, n: c_int, ranges: In<[c_int; 3]>, newgroup: Out<Group>)
        |mpi| {
        let session = mpi.groups.session_of(&[group]);
        let (group, ranges) = (mpi.groups.get(group)?, self::ranges(n, ranges)?);
        mpi.groups.give(group.exclude_ranges(&ranges).map_err(wrong_rank)?, session, newgroup)
    }

    fn MPI_Group_free(group: Out<Group>) |mpi| {
        mpi.groups.free(group.get()?)?;
        group.set(MPI_GROUP_NULL)
    }
}
