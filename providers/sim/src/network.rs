//! The handle by which a network is made, driven and observed. Interfaces are opened in [`crate::iface`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bowline_base::sync::atomic::{AtomicU64, Ordering};

use crate::net::{Net, SimCounters, State};
use crate::options::NetworkOptions;
use crate::trace::Mark;

/// A simulated network. Clones are the same network.
#[derive(Clone, Debug)]
pub struct Network(Arc<Mutex<Net>>);

impl Network {
    /// A network without interfaces, at time 0.
    ///
    /// # Panics
    /// If the rows by size are not in ascending order of sizes.
    pub fn new(options: NetworkOptions) -> Self {
        let rows = &options.by_size;
        assert!(
            rows.is_sorted_by(|one, next| one.bytes < next.bytes),
            "times by size are in ascending order of sizes, each once"
        );
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        // Relaxed: only the number is wanted.
        let id = NUMBERS.fetch_add(1, Ordering::Relaxed);
        Self(Arc::new(Mutex::new(Net::new(options, id))))
    }

    /// The lock. A panic of another holder, in a test that fails, leaves the network usable.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Net> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The virtual time, in ns.
    pub fn now(&self) -> u64 {
        self.lock().now()
    }

    /// The time of the next event, in ns; `None` when nothing is under way.
    pub fn next_event(&self) -> Option<u64> {
        self.lock().next_event()
    }

    /// Brings the next event. `false` when nothing is under way.
    pub fn advance(&self) -> bool {
        self.lock().advance()
    }

    /// Lets time pass until `at`, in ns, and brings what comes until then: for several networks with one
    /// clock. Time that has passed stays so.
    pub fn pass_until(&self, at: u64) {
        self.lock().pass_until(at);
    }

    /// What a byte takes from now on, in ps: of messages and puts, and of gets
    /// ([`NetworkOptions::byte_ps`], [`NetworkOptions::read_ps`]). What was posted before keeps its times.
    pub fn set_byte_times(&self, byte_ps: u64, read_ps: Option<u64>) {
        let options = &mut self.lock().options;
        (options.byte_ps, options.read_ps) = (byte_ps, read_ps);
    }

    /// Brings all events, and those that they cause.
    pub fn run_until_quiet(&self) {
        let mut net = self.lock();
        while net.advance() {}
    }

    /// Kills an interface as a crash would. Its own operations end with errors from here on, as
    /// if every peer had failed; the others learn of it after the time-out.
    pub fn kill(&self, node: u32) {
        self.lock().kill(node);
    }

    /// Fails everything that an interface waits for, without a word to the others: for a program
    /// that has to end.
    pub fn cut_off(&self, node: u32) {
        self.lock().cut_off(node);
    }

    /// Whether an interface was neither dropped nor killed nor cut off.
    pub fn is_alive(&self, node: u32) -> bool {
        self.lock().is_alive(node)
    }

    /// How an interface ended, if it did.
    pub fn ended(&self, node: u32) -> Option<crate::Ended> {
        match self.lock().nodes.get(node as usize)?.state {
            State::Alive => None,
            State::Ended(how) => Some(how),
        }
    }

    /// Changes whenever the set of failures that were reported to `node` does.
    pub fn failure_generation(&self, node: u32) -> u32 {
        self.lock().nodes.get(node as usize).map_or(0, |node| node.failure_generation)
    }

    /// The interfaces whose death or unreachability was reported to `node`.
    pub fn failures(&self, node: u32) -> Vec<u32> {
        let net = self.lock();
        net.nodes.get(node as usize).map_or_else(Vec::new, |n| n.failures.iter().copied().collect())
    }

    /// How many pieces of memory an interface has open to others.
    pub fn memories(&self, node: u32) -> usize {
        self.lock().nodes.get(node as usize).map_or(0, |node| node.memory.len())
    }

    /// Appends the interfaces to which something happened since the last call, each once.
    pub fn take_woken(&self, out: &mut Vec<u32>) {
        self.lock().take_woken(out);
    }

    /// A number that is the same for equal runs, and hardly for others.
    pub fn trace_hash(&self) -> u64 {
        self.lock().trace.hash()
    }

    /// The last entries of the trace, as many as [`NetworkOptions::log`] says.
    pub fn log(&self) -> Vec<String> {
        self.lock().trace.lines()
    }

    /// Enters a choice of the network's driver into the trace.
    pub fn note_choice(&self, what: u32, value: u64) {
        let mut net = self.lock();
        let now = net.now();
        net.trace.note(now, Mark::Choice, what, what, [value, 0]);
    }

    /// What was counted so far.
    pub fn counters(&self) -> SimCounters {
        self.lock().counters.clone()
    }
}
