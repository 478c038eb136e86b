//! Bowline as the communication of timely dataflow: an allocator of channels for one worker in each
//! rank.
//!
//! ```text
//!   operator ── push ──► outbox of a rank, serialized ── release, or when it is full ──► isend
//!            ── push to itself ──► queue, as it is                                         │
//!   operator ◄── pull ── queue of the channel ◄── receive: every message that is there ◄───┘
//! ```
//! Timely asks little of its communication: what one worker pushes into a channel arrives in order,
//! at some time after `release`, and is reported by an event. Messages of MPI between two ranks stay in
//! order, so all channels share one tag, and what was pushed between two releases shares a message.
//!
//! A message without bytes is a rank's last. A worker leaves when it has got the last one of everybody,
//! so nobody sends to a rank that is gone.
//!
//! Timely has no way to return an error from here. When a rank has died its worker panics with a
//! message, which `execute_from` hands to the thread that joins it.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::marker::PhantomData;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bowline::mpi::{ANY_SOURCE, MpiError, OwnedSend, Request as _, World};
use timely::bytes::arc::{Bytes, BytesMut};
use timely::communication::allocator::canary::Canary;
use timely::communication::allocator::counters;
use timely::communication::allocator::{Allocate, AllocateBuilder, Exchangeable};
use timely::communication::{Bytesable, Pull, Push};

use crate::frame;

/// The tag of all messages.
const TAG: i32 = 0x71;

/// An outbox with more bytes is sent at once.
const FULL: usize = 256 << 10;

/// Makes the allocator in the thread that will use it, since a rank belongs to one thread.
#[derive(Debug)]
pub(crate) struct Join;

impl AllocateBuilder for Join {
    type Allocator = Ranks;

    fn build(self) -> Ranks {
        match bowline::init() {
            Ok(world) => Ranks::new(world),
            Err(error) => panic!("cannot join the job: {error}"),
        }
    }
}

/// What is on its way to a rank.
struct Outbox {
    world: World,
    rank: i32,
    gathered: Vec<u8>,
    /// Sends whose bytes are still needed, oldest first.
    under_way: VecDeque<OwnedSend<u8>>,
}

impl Outbox {
    fn send(&mut self) -> Result<(), MpiError> {
        while let Some(oldest) = self.under_way.front_mut() {
            if oldest.test()?.is_none() {
                break;
            }
            self.under_way.pop_front();
        }
        if self.gathered.is_empty() {
            return Ok(());
        }
        let bytes = std::mem::take(&mut self.gathered);
        self.under_way.push_back(self.world.isend_owned(bytes, self.rank, TAG)?);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), MpiError> {
        self.send()?;
        self.world.send::<u8>(&[], self.rank, TAG)
    }
}

/// A queue that two ends share.
type Shared<T> = Rc<RefCell<VecDeque<T>>>;

/// The allocator of a rank.
pub(crate) struct Ranks {
    world: World,
    events: Rc<RefCell<Vec<usize>>>,
    /// Channels whose receiving ends are gone.
    canaries: Rc<RefCell<Vec<usize>>>,
    /// The last channel that was allocated; their numbers grow.
    last: Option<usize>,
    /// Serialized elements by channel.
    queues: HashMap<usize, Shared<Bytes>>,
    /// By rank; none for this one.
    outboxes: Vec<Option<Rc<RefCell<Outbox>>>>,
    /// Ranks whose last message has come.
    ended: usize,
}

impl Ranks {
    fn new(world: World) -> Self {
        let outbox = |rank| {
            let (gathered, under_way) = (Vec::new(), VecDeque::new());
            let world = world.clone();
            (rank != world.rank())
                .then(|| Rc::new(RefCell::new(Outbox { world, rank, gathered, under_way })))
        };
        let outboxes = (0..world.size()).map(outbox).collect();
        Self {
            world,
            events: Rc::default(),
            canaries: Rc::default(),
            last: None,
            queues: HashMap::new(),
            outboxes,
            ended: 0,
        }
    }

    /// Takes every message that is there.
    fn take_messages(&mut self) -> Result<(), MpiError> {
        while let Some(message) = self.world.improbe(ANY_SOURCE, TAG)? {
            let length = message.status().count::<u8>().unwrap_or(0);
            let mut bytes = vec![0u8; length];
            let source = message.recv(&mut bytes)?.source();
            if length == 0 {
                self.ended += 1;
            }
            self.distribute(BytesMut::from(bytes).freeze(), source);
        }
        Ok(())
    }

    /// Hands the records of a message to their channels, without a copy.
    fn distribute(&mut self, mut bytes: Bytes, source: i32) {
        let mut events = self.events.borrow_mut();
        while !bytes.is_empty() {
            let Some(record) = frame::first(&bytes) else {
                panic!("rank {source} has sent {} bytes that are no record", bytes.len());
            };
            let mut taken = bytes.extract_to(record.next);
            let mut data = { taken.extract_to(record.end) };
            drop(data.extract_to(record.start));
            events.push(record.channel);
            // Others may send into a channel before this rank has allocated it, and after it has
            // dropped it.
            let awaited = self.last.is_none_or(|last| last < record.channel);
            if awaited {
                self.queues.entry(record.channel).or_default();
            }
            if let Some(queue) = self.queues.get(&record.channel) {
                queue.borrow_mut().push_back(data);
            }
        }
    }

    fn others(&self) -> impl Iterator<Item = &Rc<RefCell<Outbox>>> {
        self.outboxes.iter().flatten()
    }

    /// Sends what is gathered and the last messages, and waits for those of the others.
    fn finish(&mut self) -> Result<(), MpiError> {
        for outbox in self.others() {
            outbox.borrow_mut().finish()?;
        }
        while self.ended + 1 < self.outboxes.len() {
            let message = self.world.mprobe(ANY_SOURCE, TAG)?;
            let mut bytes = vec![0u8; message.status().count::<u8>().unwrap_or(0)];
            message.recv(&mut bytes)?;
            self.ended += usize::from(bytes.is_empty());
        }
        Ok(())
    }
}

/// What happens when the others cannot be reached.
fn or_panic<R>(what: &str, outcome: Result<R, MpiError>) -> R {
    outcome.unwrap_or_else(|error| panic!("{what}: {error}; start the job again"))
}

impl Allocate for Ranks {
    fn index(&self) -> usize {
        self.world.rank() as usize
    }

    fn peers(&self) -> usize {
        self.world.size() as usize
    }

    fn allocate<T: Exchangeable>(
        &mut self,
        identifier: usize,
    ) -> (Vec<Box<dyn Push<T>>>, Box<dyn Pull<T>>) {
        assert!(self.last.is_none_or(|last| last < identifier), "numbers of channels grow");
        self.last = Some(identifier);
        let own = Shared::<T>::default();
        let pushers = self.outboxes.iter().map(|outbox| -> Box<dyn Push<T>> {
            match outbox {
                Some(outbox) => Box::new(ToRank {
                    channel: identifier,
                    outbox: Rc::clone(outbox),
                    elements: PhantomData,
                }),
                None => {
                    let own = ToSelf(Rc::clone(&own));
                    Box::new(counters::Pusher::new(own, identifier, Rc::clone(&self.events)))
                }
            }
        });
        let pushers = pushers.collect();
        let serialized = Rc::clone(self.queues.entry(identifier).or_default());
        let canary = Canary::new(identifier, Rc::clone(&self.canaries));
        let pull = FromAll { own, serialized, current: None, _canary: canary };
        let events = Rc::clone(&self.events);
        (pushers, Box::new(counters::Puller::new(pull, identifier, events)))
    }

    fn events(&self) -> &Rc<RefCell<Vec<usize>>> {
        &self.events
    }

    fn await_events(&self, duration: Option<Duration>) {
        if !self.events.borrow().is_empty() {
            return;
        }
        let Some(duration) = duration else {
            // Sleeps until a message is there. That nobody is left to send one is reported by the next
            // receive.
            let _ = self.world.probe(ANY_SOURCE, TAG);
            return;
        };
        let start = Instant::now();
        while matches!(self.world.iprobe(ANY_SOURCE, TAG), Ok(None)) && start.elapsed() < duration {
            std::thread::yield_now();
        }
    }

    fn receive(&mut self) {
        for gone in self.canaries.borrow_mut().drain(..) {
            self.queues.remove(&gone);
        }
        or_panic("cannot receive", self.take_messages());
    }

    fn release(&mut self) {
        for outbox in self.others() {
            or_panic("cannot send", outbox.borrow_mut().send());
        }
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        if let Err(error) = self.finish() {
            eprintln!("dataflow: the job does not end in order: {error}");
        }
    }
}

/// The end of a channel that leads to another rank.
struct ToRank<T> {
    channel: usize,
    outbox: Rc<RefCell<Outbox>>,
    elements: PhantomData<T>,
}

impl<T: Bytesable> Push<T> for ToRank<T> {
    fn push(&mut self, element: &mut Option<T>) {
        let Some(element) = element else { return };
        let mut outbox = self.outbox.borrow_mut();
        let length = element.length_in_bytes();
        frame::append(&mut outbox.gathered, self.channel, length, |out| element.into_bytes(out));
        if outbox.gathered.len() > FULL {
            or_panic("cannot send", outbox.send());
        }
    }
}

/// The end that leads to this rank.
struct ToSelf<T>(Shared<T>);

impl<T> Push<T> for ToSelf<T> {
    fn push(&mut self, element: &mut Option<T>) {
        self.0.borrow_mut().extend(element.take());
    }
}

/// The receiving end.
struct FromAll<T> {
    own: Shared<T>,
    serialized: Shared<Bytes>,
    current: Option<T>,
    _canary: Canary,
}

impl<T: Bytesable> Pull<T> for FromAll<T> {
    fn pull(&mut self) -> &mut Option<T> {
        self.current = self.own.borrow_mut().pop_front();
        if self.current.is_none() {
            self.current = self.serialized.borrow_mut().pop_front().map(T::from_bytes);
        }
        &mut self.current
    }
}
