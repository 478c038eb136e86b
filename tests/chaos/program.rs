//! One rank's way through a program.

use std::cell::Cell;

use bowline::mpi::{
    ANY_SOURCE, ANY_TAG, Communicator, MpiError, Request as _, Status, UNDEFINED, World,
};
use bowline::simulate;

use crate::background::{self, Slot};
use crate::case::Case;
use crate::content::{bytes, mix};
use crate::neighbors::{Member, Neighbors, Shape};
use crate::plan::{Give, Step, TAGS, Take, What};

thread_local! {
    /// The error that this rank died of. A rank that was killed has none: what it gets then means nothing.
    static FIRST: Cell<Option<MpiError>> = const { Cell::new(None) };
}

/// Notes an error and ends the rank, as a program does that cannot go on: before it leaves any
/// scope, where its sends would wait for ranks that may have given up too.
pub(crate) fn give_up<R>(result: Result<R, MpiError>) -> Result<R, MpiError> {
    if let Err(error) = result
        && simulate::die()
    {
        FIRST.set(Some(error));
    }
    result
}

/// The first error of the rank of this thread.
pub(crate) fn first_error() -> Option<MpiError> {
    FIRST.take()
}

/// A rank on its way.
pub(crate) struct Rank<'a> {
    pub(crate) case: &'a Case,
    pub(crate) world: &'a World,
    /// In the world.
    pub(crate) me: usize,
    pub(crate) slots: Vec<Option<Slot>>,
    comms: Vec<Option<Communicator>>,
}

/// Runs all steps. `reached` is called with how many of the outermost ones are done.
pub(crate) fn run(case: &Case, world: &World, reached: &dyn Fn(usize)) -> Result<(), MpiError> {
    let mut comms: Vec<Option<Communicator>> = vec![Some(world.communicator().clone())];
    comms.resize_with(case.plan.families.len(), || None);
    let mut slots = Vec::new();
    slots.resize_with(case.plan.slots, || None);
    let mut rank = Rank { case, world, me: world.rank() as usize, slots, comms };
    for (done, step) in case.plan.steps.iter().enumerate() {
        rank.step(step)?;
        reached(done + 1);
    }
    Ok(())
}

impl<'a> Rank<'a> {
    /// A communicator of this rank.
    pub(crate) fn communicator(&self, family: usize) -> Communicator {
        self.comms[family].clone().expect("steps use communicators that are open")
    }

    /// What it is in a communicator of a family.
    pub(crate) fn member(&self, family: usize, comm: &Communicator) -> Member<'a> {
        let neighbors = self.case.plan.neighbors[family].as_ref();
        Member { me: comm.rank() as usize, n: comm.size() as usize, neighbors }
    }

    /// Takes in a communicator of a family.
    pub(crate) fn open(
        &mut self,
        made: Result<(usize, Communicator), MpiError>,
    ) -> Result<(), MpiError> {
        let (family, comm) = made?;
        self.comms[family] = Some(comm);
        Ok(())
    }

    /// This rank's part of a step; an error is the end of this rank.
    pub(crate) fn step(&mut self, step: &Step) -> Result<(), MpiError> {
        let member = || self.case.plan.families[step.family][step.group].contains(&self.me);
        if step.what.is_everybodys() {
            give_up(self.among_all(step))
        } else if member() {
            give_up(self.among_members(step))
        } else {
            Ok(())
        }
    }

    fn among_all(&mut self, step: &Step) -> Result<(), MpiError> {
        let seed = mix(&[self.case.seed, step.number as u64]);
        match &step.what {
            What::Around { begun, duplicated, inner } => {
                background::around(self, begun, duplicated, inner, seed)
            }
            What::Start { slots } => background::start(self, slots, seed),
            What::Finish { slots } => background::finish(self, slots, seed),
            What::Discard { slot } => {
                self.slots[*slot] = None;
                Ok(())
            }
            what => unreachable!("{what:?} is a step of some members"),
        }
    }

    fn among_members(&mut self, step: &Step) -> Result<(), MpiError> {
        let case = self.case;
        let comm = self.communicator(step.family);
        let group = &case.plan.families[step.family][step.group];
        assert_eq!(comm.size() as usize, group.len(), "oracle: the size of a communicator");
        let member = self.member(step.family, &comm);
        let Member { me, n, .. } = member;
        let seed = mix(&[case.seed, step.number as u64]);
        let tag = step.number as i32 * TAGS;
        match &step.what {
            What::Batch(batch) => batch.run(&comm, seed, tag, case)?,
            What::Message { from, to, len, give, take } => {
                if me == *from && !case.is_forgotten(step.number) {
                    send(&comm, *give, bytes(seed, *len), *to as i32, tag)?;
                } else if me == *to {
                    receive(&comm, *take, &bytes(seed, *len), *from as i32, tag)?;
                }
            }
            What::Shift { by, len, replace } => {
                shift(&comm, (me + by) % n, (me + n - by) % n, *len, *replace, seed, tag)?;
            }
            What::Collective(collective) => {
                let content = collective.content(seed, member);
                let mut output = content.output.clone();
                collective.block(&comm, member, &content.input, &mut output)?;
                collective.check(&content, &output, "a blocking");
            }
            What::Make { slot, collective } => {
                self.slots[*slot] = Some(background::make(collective, step.family, &comm, member)?);
            }
            What::Cancel { rank, any } if me == *rank => cancel(&comm, *any, tag)?,
            What::Busy { rank, polls } if me == *rank => {
                for _ in 0..*polls {
                    let found = comm.iprobe(me as i32, tag)?;
                    assert_eq!(found, None, "oracle: nobody has sent this");
                }
            }
            What::Cancel { .. } | What::Busy { .. } => {}
            What::Dup { into } => {
                let made = comm.dup()?;
                assert_eq!((made.rank(), made.size()), (comm.rank(), comm.size()), "oracle: dup");
                self.comms[*into] = Some(made);
            }
            What::Split { into, colors, keys } => {
                let color = if colors[me] < 0 { UNDEFINED } else { colors[me] };
                let made = comm.split(color, keys[me])?;
                let place = made.as_ref().map(|made| made.rank() as usize);
                let expected = case.plan.families[*into]
                    .iter()
                    .find_map(|ranks| ranks.iter().position(|&world| world == group[me]));
                assert_eq!(place, expected, "oracle: the rank after a split");
                self.comms[*into] = made;
            }
            What::Place { into } => {
                let neighbors = case.plan.neighbors[*into].as_ref().expect("it has a topology");
                let made = place(&comm, neighbors)?;
                let expected = Some(me).filter(|&me| me < neighbors.to.len());
                let rank = made.as_ref().map(|made| made.rank() as usize);
                assert_eq!(rank, expected, "oracle: the rank in a topology");
                self.comms[*into] = made;
            }
            What::Free => self.comms[step.family] = None,
            what => unreachable!("{what:?} is a step of all ranks"),
        }
        Ok(())
    }
}

/// A communicator of the first ranks with these neighbours.
fn place(comm: &Communicator, neighbors: &Neighbors) -> Result<Option<Communicator>, MpiError> {
    let list = |all: &[Option<usize>]| -> Vec<i32> {
        all.iter().map(|rank| rank.expect("a graph has no border") as i32).collect()
    };
    match &neighbors.shape {
        Shape::Grid { dims, periods } => comm.cart_create(dims, periods, false),
        Shape::Graph => {
            let ends = neighbors.to.iter().scan(0, |sum, all| {
                *sum += all.len() as i32;
                Some(*sum)
            });
            comm.graph_create(&ends.collect::<Vec<_>>(), &list(&neighbors.to.concat()), false)
        }
        Shape::Directed => {
            let me = comm.rank() as usize;
            let (from, to) = (list(&neighbors.from[me]), list(&neighbors.to[me]));
            comm.dist_graph_create_adjacent((&from, None), (&to, None), false).map(Some)
        }
    }
}

fn send(comm: &Communicator, give: Give, data: Vec<u8>, to: i32, tag: i32) -> Result<(), MpiError> {
    match give {
        Give::Blocking => comm.send(&data, to, tag),
        Give::Synchronous => comm.ssend(&data, to, tag),
        Give::Owned => comm.isend_owned(data, to, tag)?.wait().map(drop),
        Give::Dropped => comm.isend_owned(data, to, tag).map(drop),
        Give::Scoped => comm.scope(|scope| {
            let mut request = give_up(scope.isend(comm, &data[..], to, tag))?;
            while give_up(request.test())?.is_none() {}
            Ok(())
        }),
    }
}

fn same(got: &[u8], status: &Status, data: &[u8], from: i32, tag: i32) {
    let is = (status.source(), status.tag(), status.bytes());
    assert_eq!(is, (from, tag, data.len() as u64), "oracle: the status of a message");
    assert!(&got[..data.len()] == data, "oracle: the bytes of a message changed");
}

fn receive(
    comm: &Communicator,
    take: Take,
    data: &[u8],
    from: i32,
    tag: i32,
) -> Result<(), MpiError> {
    let mut got = vec![0; data.len() + 3];
    let status = match take {
        Take::Exact => comm.recv(&mut got, from, tag)?,
        Take::AnySource => comm.recv(&mut got, ANY_SOURCE, tag)?,
        Take::AnyTag => comm.recv(&mut got, from, ANY_TAG)?,
        Take::Probe | Take::ProbeAnySource => {
            let source = if take == Take::Probe { from } else { ANY_SOURCE };
            let seen = comm.probe(source, tag)?;
            assert_eq!(seen.bytes(), data.len() as u64, "oracle: a probed length");
            comm.recv(&mut got, seen.source(), seen.tag())?
        }
        Take::PollProbe => {
            let seen = loop {
                if let Some(seen) = comm.iprobe(from, tag)? {
                    break seen;
                }
            };
            assert_eq!(seen.bytes(), data.len() as u64, "oracle: a probed length");
            comm.recv(&mut got, from, tag)?
        }
        Take::MatchedProbe => comm.mprobe(from, tag)?.recv(&mut got)?,
        Take::PollMatchedProbe => loop {
            if let Some(message) = comm.improbe(ANY_SOURCE, tag)? {
                break message.recv(&mut got)?;
            }
        },
        Take::Test => {
            let mut request = comm.irecv_owned(got, from, tag)?;
            while request.test()?.is_none() {}
            let (items, status) = request.wait()?;
            got = items;
            status
        }
        Take::Short => return short(comm, data, from, tag),
        Take::Cancel => {
            let mut request = comm.irecv_owned(got, from, tag)?;
            for _ in 0..data.len() % 17 {
                comm.iprobe(comm.rank(), tag)?;
            }
            request.cancel();
            match request.wait() {
                Ok((items, status)) => {
                    got = items;
                    status
                }
                Err(MpiError::Cancelled) => {
                    got = vec![0; data.len()];
                    comm.recv(&mut got, from, tag)?
                }
                Err(error) => return Err(error),
            }
        }
    };
    same(&got, &status, data, from, tag);
    Ok(())
}

/// Receives into half of the bytes that the message needs.
fn short(comm: &Communicator, data: &[u8], from: i32, tag: i32) -> Result<(), MpiError> {
    let half = data.len() / 2;
    let mut got = vec![0; half];
    match comm.recv(&mut got, from, tag) {
        Err(MpiError::Truncated { message, capacity: had }) => {
            let expected = (data.len() as u64, half as u64);
            assert_eq!((message, had), expected, "oracle: what is said of a message that is cut");
        }
        Ok(status) => assert_eq!(status.bytes(), half as u64, "oracle: a message was not cut"),
        Err(error) => return Err(error),
    }
    assert!(got == data[..half], "oracle: the front of a message that is cut");
    Ok(())
}

fn shift(
    comm: &Communicator,
    to: usize,
    from: usize,
    len: usize,
    replace: bool,
    seed: u64,
    tag: i32,
) -> Result<(), MpiError> {
    let content = |rank: usize| bytes(mix(&[seed, rank as u64]), len);
    let mut got = content(comm.rank() as usize);
    let (to, from_rank) = (to as i32, from as i32);
    let status = if replace {
        comm.sendrecv_replace(&mut got, to, tag, from_rank, tag)?
    } else {
        let out = got;
        got = vec![0; len];
        comm.sendrecv(&out, to, tag, &mut got, from_rank, tag)?
    };
    same(&got, &status, &content(from), from_rank, tag);
    Ok(())
}

fn cancel(comm: &Communicator, any: bool, tag: i32) -> Result<(), MpiError> {
    let source = if any { ANY_SOURCE } else { (comm.rank() + 1) % comm.size() };
    let mut request = comm.irecv_owned(vec![0_u8; 16], source, tag)?;
    comm.iprobe(source, tag)?;
    request.cancel();
    match request.wait() {
        Err(MpiError::Cancelled) => Ok(()),
        Err(error) => Err(error),
        Ok((_, status)) => panic!("oracle: nobody sent what a cancelled receive got: {status:?}"),
    }
}
