//! Who moves messages on while a rank computes: nobody, a signal handler of its thread, or a thread
//! beside it. The modes of [`PROGRESS`]; `docs/decisions/0016-progress-beside.md`
//! says why.
//!
//! | mode | who | costs |
//! |---|---|---|
//! | `none` | the rank's own calls | nothing |
//! | `pef` | a *parasite execution flow*: a timer interrupts the rank's thread, which polls for the message of a long nonblocking receive (`progress/pef.rs`); for sockets and libfabric a thread that is asleep but while long messages are under way there and the rank computes | some microseconds for each poll; system calls of the program that sleep may return EINTR |
//! | `thread` | a thread that sleeps until a message comes (`progress/helper.rs`), and that carries out steps of collectives in the background as well | a wake-up for each message, and a lock |

mod helper;
mod pef;

use std::time::Duration;

use bowline_base::config::{Config, Origin, Setting};
use bowline_ucp::{DriverKind, Worker};
use thiserror::Error;

bowline_base::choice! {
    /// Who makes progress.
    pub enum Progress {
        /// The calls of the rank.
        None = "none",
        /// These, and a signal handler while long nonblocking receives wait for their messages.
        Pef = "pef",
        /// These, and a thread for each rank.
        Thread = "thread",
    }
}

bowline_base::settings! {
    /// Settings of progress.
    pub const SETTINGS = [
        /// Who moves long messages on while a rank computes: none, only its own calls; pef, a timer that interrupts it while nonblocking receives wait for long messages; thread, a thread beside it, which moves collectives in the background as well.
        pub PROGRESS: Progress = Setting::<Progress>::choice("BOWLINE_PROGRESS", "none")
            .cost("pef: some microseconds of the rank's time for each poll, and sleep, poll and the like of the program return EINTR; thread: a lock in every call, and a wake-up for each message, which takes a processor")
            .change("pef where ranks compute between a nonblocking receive and its wait; thread where collectives run in the background of computations");
        /// With BOWLINE_PROGRESS=pef, the time from posting a receive to the first poll. Over sockets and libfabric, unless it is set, 20 us between hosts and 30 ms on one.
        pub PEF_PHASE: Duration = Setting::<Duration>::time("BOWLINE_PEF_PHASE", Duration::from_micros(2), Duration::from_nanos(100), Duration::from_secs(1))
            .cost("polls that come before the message, where it is too short")
            .change("raise it where peers post their sends later than that after the receives");
        /// With BOWLINE_PROGRESS=pef, the time between the first poll of the signal handler and the second, and between two pieces of a copy.
        pub PEF_PERIOD: Duration = Setting::<Duration>::time("BOWLINE_PEF_PERIOD", Duration::from_micros(10), Duration::from_micros(1), Duration::from_secs(1))
            .cost("the rank's time, some microseconds for each poll")
            .change("as BOWLINE_PEF_PHASE");
        /// With BOWLINE_PROGRESS=pef, by how much each time between two polls is longer than the one before.
        pub PEF_DECAY: u32 = Setting::<u32>::integer("BOWLINE_PEF_DECAY", 2, 1, 1000)
            .cost("how much later than it came a late message is found; with 1, the rank's time")
            .change("1 where messages come late and have to be found soon");
        /// With BOWLINE_PROGRESS=pef, polls of the signal handler in vain after which no further one is made before the next receive.
        pub PEF_MAX_POLLS: u32 = Setting::<u32>::integer("BOWLINE_PEF_MAX_POLLS", 20, 1, 1_000_000_000)
            .cost("the rank's time for messages that never come")
            .change("raise it with a decay of 1, by which polls do not become rarer");
        /// With BOWLINE_PROGRESS=pef, how many times as long as a poll a processor would copy a message that is polled for early; others are polled for when the rank has computed for long. What a transport moves by itself is always polled for early. Where ranks share processors, messages that processors copy are left to the calls of the ranks, unless this is 0.
        pub PEF_WORTH: u32 = Setting::<u32>::integer("BOWLINE_PEF_WORTH", 8, 0, 1_000_000)
            .cost("the wait of senders of shorter messages, while the receiver computes; with 0, the rank's time for polls that take longer than they save")
            .change("lower it where senders wait while their receivers compute");
    ];
}

/// Why a mode cannot be had.
#[derive(Error)]
#[non_exhaustive]
pub enum ProgressError {
    /// The system refuses something.
    #[error("BOWLINE_PROGRESS: cannot {act}: {source}")]
    System {
        /// What.
        act: &'static str,
        /// Why.
        source: std::io::Error,
    },
    /// The program uses all real-time signals.
    #[error(
        "BOWLINE_PROGRESS=pef needs a real-time signal, and the program has handlers for all of them; \
         leave one alone, or use BOWLINE_PROGRESS=thread"
    )]
    NoSignal,
    /// Too many ranks in one process.
    #[error("BOWLINE_PROGRESS=pef serves {} ranks of one process at most", pef::SLOTS)]
    TooManyRanks,
}

bowline_base::debug_by_display!(ProgressError);

/// Gives a worker the driver that the settings ask for. `spread`: ranks of the job are on other hosts.
///
/// # Errors
/// When the system refuses a thread or a timer, or there is no signal left.
pub fn attend(worker: &Worker, config: &Config, spread: bool) -> Result<(), ProgressError> {
    match config.get(PROGRESS) {
        Progress::None => Ok(()),
        Progress::Pef => {
            let schedule = pef::Schedule {
                phase: config.get(PEF_PHASE),
                period: config.get(PEF_PERIOD),
                decay: config.get(PEF_DECAY),
                max_polls: config.get(PEF_MAX_POLLS),
                worth: config.get(PEF_WORTH),
            };
            let phase = match config.origin(PEF_PHASE) {
                Origin::Default if spread => pef::Phase::Hosts,
                Origin::Default => pef::Phase::OneHost,
                _ => pef::Phase::Set(schedule.phase),
            };
            let served = worker.has_served_lanes().then_some(phase);
            let kind = match served {
                Some(_) => DriverKind::SignalAndThread,
                None => DriverKind::Signal,
            };
            worker
                .install_progress(kind, |door| Ok(Box::new(pef::Pef::new(door, schedule, served)?)))
        }
        Progress::Thread => {
            let bell = worker.doorbell();
            worker.install_progress(DriverKind::Thread, |door| {
                Ok(Box::new(helper::Helper::start(door, bell)?))
            })
        }
    }
}

/// Whether the calling thread is in a handler of mode `pef`. For tests, whose allocators do not allow it to allocate.
#[doc(hidden)]
pub fn in_signal_handler() -> bool {
    pef::in_signal_handler()
}

/// Polls made by signal handlers of this process so far. For tests and measurements.
#[doc(hidden)]
pub fn poll_count() -> u64 {
    pef::poll_count()
}

/// Times that timers of this process were set or stopped so far. For tests and measurements.
#[doc(hidden)]
pub fn timer_calls() -> u64 {
    pef::timer_calls()
}
