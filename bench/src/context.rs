//! What sources know of a comparison: where and how they measure.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::delayed::{DelayedNetwork, RelayOptions};
use crate::hosts::{self, Hosts};
use crate::metric::Wire;
use crate::{BenchError, PeersOptions};

/// What a source needs to know of the comparison.
#[derive(Debug)]
pub(crate) struct Context {
    /// Where peers are installed and programs compiled, absolute.
    pub(crate) cache: PathBuf,
    /// Whether installing is allowed.
    pub(crate) install: bool,
    /// The two CPUs.
    pub(crate) cpus: [usize; 2],
    /// Timed part of one figure.
    pub(crate) budget: Duration,
    /// Time limit of one start.
    pub(crate) time_limit: Duration,
    /// Whether this is the quick run.
    pub(crate) quick: bool,
    /// The hosts of the runs over a veth pair, or why there are none.
    pub(crate) veth: Arc<Result<Hosts, BenchError>>,
    /// The hosts of the runs over a network with delay, or why there are none.
    pub(crate) delayed: Arc<Result<DelayedNetwork, BenchError>>,
    /// Where notes to the user go.
    pub(crate) progress: Progress,
}

impl Context {
    /// What jobs need: no plan, and a network with delay if they run over one.
    pub(crate) fn of_jobs(
        options: &PeersOptions,
        network: Option<(u32, &RelayOptions)>,
    ) -> Result<Self, BenchError> {
        let cpus = options.checked_cpus()?;
        let idle = || hosts::missing("no job needs them".to_owned());
        let delayed = match network {
            Some((hosts, relay)) => Ok(DelayedNetwork::make(hosts as usize, &cpus, relay)?),
            None => Err(idle()),
        };
        Ok(Self {
            cache: options.cache_dir()?,
            install: !options.no_install,
            cpus,
            veth: Arc::new(Err(idle())),
            delayed: Arc::new(delayed),
            budget: Duration::ZERO,
            time_limit: Duration::from_secs(60),
            quick: options.quick,
            progress: Progress::new(options.quiet),
        })
    }

    /// The network with delay, if there is one.
    pub(crate) fn delayed(&self) -> Option<&DelayedNetwork> {
        (*self.delayed).as_ref().ok()
    }

    /// The hosts of the runs over a wire that joins hosts.
    pub(crate) fn hosts(&self, wire: Wire) -> Result<Option<&Hosts>, BenchError> {
        let hosts = match wire {
            Wire::Memory | Wire::Loopback => return Ok(None),
            Wire::Veth => self.veth.as_ref().as_ref(),
            Wire::Delayed => self.delayed.as_ref().as_ref().map(DelayedNetwork::hosts),
        };
        hosts.map(Some).map_err(|error| BenchError::SharedStart(error.to_string()))
    }
}

/// A progress bar on a terminal, lines elsewhere, nothing when asked to be quiet.
#[derive(Debug)]
pub(crate) struct Progress {
    pub(crate) bar: ProgressBar,
    pub(crate) quiet: bool,
    /// When a line was printed last.
    last: Cell<Instant>,
}

/// Pause between two lines.
const PAUSE: Duration = Duration::from_secs(20);

impl Progress {
    pub(crate) fn new(quiet: bool) -> Self {
        let bar = if quiet { ProgressBar::hidden() } else { ProgressBar::new(0) };
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {msg}") {
            bar.set_style(style);
        }
        Self { bar, quiet, last: Cell::new(Instant::now()) }
    }

    /// The same bar for another context.
    pub(crate) fn again(&self) -> Self {
        Self { bar: self.bar.clone(), quiet: self.quiet, last: self.last.clone() }
    }

    /// Where there is no bar, says now and then what is being measured.
    pub(crate) fn line(&self, round: usize, what: &str) {
        if self.quiet || !self.bar.is_hidden() || self.last.get().elapsed() < PAUSE {
            return;
        }
        self.last.set(Instant::now());
        let (done, all) = (self.bar.position(), self.bar.length().unwrap_or(0));
        let seconds = self.bar.elapsed().as_secs();
        eprintln!("round {}, {what}: {done} of {all} starts, {seconds} s", round + 1);
    }

    /// Prints something that stays on the screen.
    pub(crate) fn note(&self, text: &str) {
        if self.quiet {
        } else if self.bar.is_hidden() {
            eprintln!("{text}");
        } else {
            self.bar.println(text);
        }
    }
}
