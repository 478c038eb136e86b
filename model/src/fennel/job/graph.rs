//! A job as a program: the calls of each rank one after the other, and what it started beside them.
//!
//! What a rank started hangs behind its start and before its end. A process does one task at a time, in the order in which
//! they are ready: so the steps of what was started are taken while the rank waits for a message, and between what it
//! computes, as they are without a helper thread.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::super::generate::rank_steps;
use super::super::program::{Act, Program, TaskId};
use super::super::source::StepSource;
use super::{BlockRow, Collective, Job, JobRecordError, Lengths, Own, RankRecord, What};

/// Gives the steps of a collective.
pub type StepProvider<'a> = dyn FnMut(&Collective) -> Result<Box<dyn StepSource>, String> + 'a;

/// A communicator of the job, and which of its collectives: the series and the number in that.
pub(super) type Place = (u32, u64, u64);

/// Which collectives of its communicator a call is numbered among.
fn series(call: &Collective) -> u64 {
    match call.persistent {
        Some(number) => 2 + u64::from(number),
        None => u64::from(call.later),
    }
}

/// The collectives of a rank so far.
#[derive(Debug, Default)]
pub(super) struct Calls(HashMap<(u32, u64), u64>);

impl Calls {
    /// The place of the next one. `comm` is a number in the job.
    pub(super) fn next(&mut self, comm: u32, call: &Collective) -> Place {
        let series = series(call);
        let count = self.0.entry((comm, series)).or_default();
        *count += 1;
        (comm, series, *count - 1)
    }
}

/// What the members of a collective have recorded of its bytes.
#[derive(Debug, Default)]
struct Recorded<'a> {
    sum: u128,
    count: u128,
    /// What they know of blocks of different lengths, with their ranks.
    blocks: Vec<(usize, &'a Own)>,
}

impl Recorded<'_> {
    /// The bytes in the mean.
    fn mean(&self) -> usize {
        self.sum.div_ceil(self.count.max(1)) as usize
    }

    /// The lengths of blocks, where all of so many members have recorded theirs.
    fn lengths(&self, ranks: u32) -> Lengths {
        let ranks = ranks as usize;
        let (mut own, mut pairs) = (vec![None; ranks], vec![None; ranks]);
        for (rank, blocks) in &self.blocks {
            match blocks {
                Own::Nothing => {}
                Own::Block(len) => own[*rank] = Some(*len),
                Own::Sent(all) if all.len() == 1 => pairs[*rank] = Some(BlockRow::Same(all[0])),
                Own::Sent(all) => pairs[*rank] = Some(BlockRow::Each(all.clone())),
            }
        }
        let own: Option<Vec<usize>> = own.into_iter().collect();
        let pairs: Option<Vec<BlockRow>> = pairs.into_iter().collect();
        own.map(Lengths::Members).or(pairs.map(Lengths::Pairs)).unwrap_or(Lengths::Even)
    }
}

impl Job {
    /// What the members of each collective have recorded of its bytes.
    fn recorded(&self, names: &Names) -> HashMap<Place, Recorded<'_>> {
        let mut all: HashMap<Place, Recorded<'_>> = HashMap::new();
        for record in &self.ranks {
            let own = |members: &Vec<u32>| members.iter().position(|one| *one == record.rank);
            let ranks: Vec<_> = record.comms.iter().map(|(_, members)| own(members)).collect();
            let mut calls = Calls::default();
            for event in &record.events {
                let What::Collective { comm, call, blocks, .. } = &event.what else { continue };
                let place = calls.next(names.comm(record, *comm), call);
                let recorded = all.entry(place).or_default();
                recorded.sum += call.bytes as u128;
                recorded.count += 1;
                if !matches!(blocks, Own::Nothing) {
                    recorded.blocks.extend(ranks[*comm as usize].map(|rank| (rank, blocks)));
                }
            }
        }
        all
    }

    /// The job as a program, which computes as long as the job did between its calls. What a collective does is asked
    /// of `steps`, once for each collective.
    ///
    /// # Errors
    /// When members disagree on a collective, or `steps` has none for it.
    pub fn program(&self, steps: &mut StepProvider<'_>) -> Result<Program, JobRecordError> {
        let mut program = Program::new(self.size());
        let mut names = Names::default();
        let recorded = self.recorded(&names);
        let mut collectives: HashMap<Place, (Collective, Box<dyn StepSource>)> = HashMap::new();
        for record in &self.ranks {
            let mut rank = Rank {
                number: record.rank,
                last: program.add(record.rank, Act::Start, &[]),
                program: &mut program,
                under_way: HashMap::new(),
            };
            let mut calls = Calls::default();
            let mut before = 0;
            for event in &record.events {
                if event.at > before {
                    rank.then(Act::Sleep((event.at - before) as f64));
                }
                before = event.till;
                match &event.what {
                    What::Send { to, comm, tag, bytes } => {
                        let tag = names.tag(names.comm(record, *comm), Use::Message(*tag));
                        rank.then(Act::Send { to: *to, bytes: *bytes as usize, tag });
                    }
                    What::Recv { from, comm, tag } => {
                        let tag = names.tag(names.comm(record, *comm), Use::Message(*tag));
                        rank.then(Act::Recv { from: *from, tag });
                    }
                    What::Wait => {}
                    What::Done(run) => rank.join(*run),
                    What::Collective { comm, call, run, .. } => {
                        let place = calls.next(names.comm(record, *comm), call);
                        let (first, source) = match collectives.entry(place) {
                            Entry::Occupied(entry) => entry.into_mut(),
                            Entry::Vacant(entry) => {
                                let recorded = recorded.get(&place);
                                let bytes = recorded.map_or(call.bytes, Recorded::mean);
                                let lengths = recorded
                                    .map_or(Lengths::Even, |recorded| recorded.lengths(call.ranks));
                                let mut call = Collective { bytes, lengths, ..call.clone() };
                                let source = steps(&call);
                                let source =
                                    source.map_err(|why| JobRecordError::Collective { why })?;
                                // The steps have what they need of the lengths, which may be many.
                                call.lengths = Lengths::Even;
                                entry.insert((call, source))
                            }
                        };
                        agree(first, call)?;
                        let members = &record.comms[*comm as usize].1;
                        rank.collective(&**source, members, (place, *run), &mut names);
                    }
                }
            }
        }
        Ok(program)
    }
}

/// Members of a communicator call the same collective.
fn agree(first: &Collective, call: &Collective) -> Result<(), JobRecordError> {
    let same = first.name == call.name && first.root == call.root;
    if same {
        return Ok(());
    }
    let why = format!(
        "members of one communicator call {} with root {} and {} with root {} at the same time",
        first.name, first.root, call.name, call.root
    );
    Err(JobRecordError::Collective { why })
}

/// What a tag of the program is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Use {
    /// A message with this tag.
    Message(u32),
    /// The phase of this collective, by its series and number.
    Collective(u64, u64, u8),
}

/// Numbers of communicators, and tags of the program.
#[derive(Debug, Default)]
pub(super) struct Names {
    comms: std::cell::RefCell<HashMap<(u32, Vec<u32>), u32>>,
    tags: HashMap<(u32, Use), u32>,
}

impl Names {
    /// The number of a communicator in the job.
    pub(super) fn comm(&self, record: &RankRecord, comm: u32) -> u32 {
        let mut comms = self.comms.borrow_mut();
        let known = &record.comms[comm as usize];
        if let Some(&number) = comms.get(known) {
            return number;
        }
        let number = comms.len() as u32;
        comms.insert(known.clone(), number);
        number
    }

    fn tag(&mut self, comm: u32, what: Use) -> u32 {
        let next = self.tags.len() as u32;
        *self.tags.entry((comm, what)).or_insert(next)
    }
}

/// A rank whose tasks are added to a program.
struct Rank<'a> {
    number: u32,
    last: TaskId,
    program: &'a mut Program,
    /// The last tasks of collectives that were started, by their numbers.
    under_way: HashMap<u32, TaskId>,
}

impl Rank<'_> {
    fn then(&mut self, act: Act) {
        self.last = self.program.add(self.number, act, &[self.last]);
    }

    /// What was started is waited for.
    fn join(&mut self, run: u32) {
        if let Some(ended) = self.under_way.remove(&run) {
            self.last = self.program.add(self.number, Act::Proxy, &[self.last, ended]);
        }
    }

    /// A collective, in the call or, with the number of its end, beside what comes after.
    fn collective(
        &mut self,
        source: &dyn StepSource,
        members: &[u32],
        (place, run): (Place, Option<u32>),
        names: &mut Names,
    ) {
        let (comm, series, number) = place;
        let Some(own) = members.iter().position(|member| *member == self.number) else { return };
        let behind = (self.number, self.last);
        let ended = rank_steps(self.program, behind, source, own as u32, &mut |peer, phase| {
            (members[peer as usize], names.tag(comm, Use::Collective(series, number, phase)))
        });
        match run {
            Some(run) => drop(self.under_way.insert(run, ended)),
            None => self.last = ended,
        }
    }
}
