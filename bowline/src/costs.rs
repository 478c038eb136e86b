//! What this machine's transports cost: remembered from before, else measured once.
//!
//! A file in the user's cache directory has the figures of each *site*: processor, kernel, version
//! of the library and the processors that the process may use. Where the site is not in it, the
//! first process measures what one process can measure alone (plain copies, and the kernel's copies
//! between processes; some 100 microseconds) and writes it down; `bowline calibrate` adds what takes
//! two ranks. Nothing is measured while ranks share processors.
//!
//! Figures steer the choice of protocols and nothing else: a file that is missing, damaged or
//! cannot be written costs a prediction, never a job.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bowline_base::config::{Config, Setting};
use bowline_ucp::cost::{Costs, Figure, Origin};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

bowline_base::settings! {
    /// Settings of the costs.
    pub const SETTINGS = [
        /// Where what the transports of this machine cost is remembered: auto, a file in the user's cache directory; off, nowhere, what comes with the library is assumed; else a file.
        pub CALIBRATION: String = Setting::<String>::text("BOWLINE_CALIBRATION", "auto")
            .cost("some 100 microseconds of the first process on a machine")
            .change("off to have the same choices on every machine; a file where the home directory is not writable or shared between different machines");
    ];
}

/// The file's name in the cache directory.
const FILE: &str = "bowline/costs.json";

/// Bytes of the copies that are measured: few enough for the cache, many enough for a rate.
const SHORT: usize = 4 << 10;
const LONG: usize = 64 << 10;

/// Longest wait for another process that measures or writes.
const PATIENCE: Duration = Duration::from_millis(20);

/// What a byte costs that another processor has just written, in copies of one that nobody else
/// has: 3.0 and 4.0 on the two machines where both were measured with plain stores. Where lines are
/// overwritten without asking for them, and one side writes while the other reads, 1.0 between
/// processors that share a cache and 3.1 between others.
fn handover() -> f64 {
    if bowline_base::copy::overwrites_lines(LONG) { 1.5 } else { 3.0 }
}

/// Nanoseconds of a byte's copy above which it was not measured on a processor at work, but in an
/// emulator, under valgrind for instance, or beside too much else. What others choose by is not
/// learned there.
const IMPLAUSIBLE: f64 = 1.0;

/// Repetitions; the shortest counts.
const TRIES: usize = 5;

/// A figure as the file has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Entry {
    transport: String,
    figure: String,
    /// Nanoseconds, or nanoseconds per byte.
    value: f64,
    origin: String,
}

/// The file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Book {
    /// Entries by site.
    sites: BTreeMap<String, Vec<Entry>>,
}

impl Book {
    /// What a file says; nothing when there is none or it is damaged.
    fn read(path: &Path) -> Self {
        let Ok(text) = fs::read(path) else { return Self::default() };
        serde_json::from_slice(&text).unwrap_or_else(|error| {
            tracing::warn!(path = %path.display(), %error, "the remembered costs are damaged; they are measured anew");
            Self::default()
        })
    }

    /// Puts it in the place of the file, whole or not at all.
    fn write(&self, path: &Path) -> std::io::Result<()> {
        let fresh = path.with_extension(format!("{}.new", std::process::id()));
        let mut file = File::create(&fresh)?;
        file.write_all(serde_json::to_string_pretty(self)?.as_bytes())?;
        fs::rename(&fresh, path).inspect_err(|_| drop(fs::remove_file(&fresh)))
    }

    fn costs(&self, site: &str) -> Option<Costs> {
        let mut costs = Costs::default();
        let entries = self.sites.get(site)?;
        // Those that somebody has calibrated, or written there, are his own.
        let probed = |e: &Entry| e.figure == "copy" && e.origin == Origin::Probed.name();
        if entries.iter().any(|e| probed(e) && !is_plausible(e.value)) {
            return None;
        }
        for entry in entries {
            // What was assumed is not: it follows anew from what was measured.
            let origin = [Origin::Probed, Origin::Calibrated];
            let Some(origin) = origin.into_iter().find(|o| o.name() == entry.origin) else {
                continue;
            };
            if (entry.transport.as_str(), entry.figure.as_str()) == ("shm", "copy") {
                assume(&mut costs, entry.value);
            }
            costs.learn(&entry.transport, &entry.figure, Figure { value: entry.value, origin });
        }
        Some(costs)
    }

    /// Takes figures in, each in place of the one of the same name and a less or equally sure
    /// origin.
    fn learn(&mut self, site: &str, costs: &Costs) {
        let entries = self.sites.entry(site.to_owned()).or_default();
        for (transport, name, Figure { value, origin }) in costs.known() {
            let same = |e: &Entry| e.transport == *transport && e.figure == *name;
            let surer = entries.iter().any(|e| {
                same(e) && e.origin == Origin::Calibrated.name() && *origin != Origin::Calibrated
            });
            if !surer {
                entries.retain(|e| !same(e));
                let (transport, figure) = (transport.clone(), name.clone());
                let origin = origin.name().to_owned();
                entries.push(Entry { transport, figure, value: *value, origin });
            }
        }
    }
}

/// Where the figures are kept; `None` where the user wants none or there is no place.
pub fn file(config: &Config) -> Option<PathBuf> {
    match config.get(CALIBRATION).trim() {
        "off" => None,
        "" | "auto" => {
            let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
            let cache = cache.filter(|path| path.is_absolute());
            let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
            Some(cache.or(home)?.join(FILE))
        }
        path => Some(PathBuf::from(path)),
    }
}

/// What decides on costs, in one line: processor, kernel, processors that may be used, version.
pub fn site() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("unknown", |rest| rest.trim_start_matches([' ', '\t', ':']));
    let system = rustix::system::uname();
    let set = processors();
    let (release, version) = (system.release().to_string_lossy(), env!("CARGO_PKG_VERSION"));
    format!("{model}; {release}; processors {}; bowline {version}", set.trim())
}

/// The processors that the kernel lets this process's group use, as ranges such as `0-3,8`. Not
/// the affinity: each rank may be bound to a processor of its own.
fn processors() -> String {
    let places = ["/sys/fs/cgroup/cpuset.cpus.effective", "/sys/devices/system/cpu/online"];
    places.iter().find_map(|path| fs::read_to_string(path).ok()).unwrap_or_default()
}

/// How many processors a list of ranges names.
fn count(ranges: &str) -> u32 {
    let number = |text: &str| text.trim().parse::<u32>().ok();
    let ranges = ranges.split(',').filter_map(|range| match range.split_once('-') {
        Some((first, last)) => Some((number(first)?, number(last)?)),
        None => number(range).map(|only| (only, only)),
    });
    ranges.map(|(first, last)| last.saturating_sub(first) + 1).sum()
}

/// What is known of this machine's costs to one of `ranks` on it. If nothing is, it is measured
/// now, unless the ranks share processors.
pub fn known(config: &Config, ranks: u32, shared: bool) -> Costs {
    let quiet = !shared && ranks <= count(&processors());
    // Ranks that are threads ask one after the other.
    static KNOWN: Mutex<Option<(PathBuf, Costs)>> = Mutex::new(None);
    let Some(path) = file(config) else { return Costs::default() };
    let mut kept = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((from, costs)) = &*kept
        && *from == path
    {
        return costs.clone();
    }
    let site = site();
    let costs = match Book::read(&path).costs(&site) {
        Some(costs) => costs,
        None if quiet => measured(&path, &site),
        // Somebody measures when there is room.
        None => return Costs::default(),
    };
    *kept = Some((path, costs.clone()));
    costs
}

/// What is remembered of this machine.
pub fn remembered(config: &Config) -> Costs {
    file(config).and_then(|path| Book::read(&path).costs(&site())).unwrap_or_default()
}

/// What nobody has measured yet, unless somebody has in the meantime.
fn measured(path: &Path, site: &str) -> Costs {
    let lock = match lock(path) {
        Ok(lock) => Some(lock),
        Err(error) => {
            tracing::debug!(path = %path.display(), %error, "costs cannot be remembered");
            None
        }
    };
    if lock.is_some()
        && let Some(costs) = Book::read(path).costs(site)
    {
        return costs;
    }
    let costs = probe();
    if lock.is_some() && !costs.known().is_empty() {
        let mut book = Book::read(path);
        book.learn(site, &costs);
        if let Err(error) = book.write(path) {
            tracing::debug!(path = %path.display(), %error, "costs cannot be remembered");
        }
    }
    costs
}

/// Has the file to itself, after waiting a little for whoever has it.
fn lock(path: &Path) -> std::io::Result<File> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let file = File::create(path.with_extension("lock"))?;
    let until = Instant::now() + PATIENCE;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(error) if Instant::now() > until => return Err(error.into()),
            Err(_) => std::thread::sleep(PATIENCE / 100),
        }
    }
}

/// Writes figures down.
///
/// # Errors
/// When the file cannot be written.
pub fn remember(path: &Path, costs: &Costs) -> std::io::Result<()> {
    let _lock = lock(path)?;
    let mut book = Book::read(path);
    book.learn(&site(), costs);
    book.write(path)
}

/// Forgets this site's figures.
///
/// # Errors
/// When the file cannot be written.
pub fn forget(path: &Path) -> std::io::Result<()> {
    let _lock = lock(path)?;
    let mut book = Book::read(path);
    match book.sites.remove(&site()) {
        Some(_) => book.write(path),
        None => Ok(()),
    }
}

/// Measures what one process can measure: a copy, and reading a process's memory by the kernel.
fn probe() -> Costs {
    let from = vec![1u8; LONG];
    let mut into = vec![0u8; LONG];
    let mut costs = Costs::default();
    let learn = |costs: &mut Costs, transport: &str, figure: &str, value: f64| {
        costs.learn(transport, figure, Figure { value, origin: Origin::Probed });
    };
    let copy = shortest(|| {
        into.copy_from_slice(&from);
        Some(())
    });
    if let Some(copy) = copy {
        if !is_plausible(copy / LONG as f64) {
            tracing::debug!(
                copy,
                LONG,
                "copies are too slow to be this machine's: costs are assumed"
            );
            return costs;
        }
        for transport in ["self", "shm", "tcp"] {
            learn(&mut costs, transport, "copy", copy / LONG as f64);
        }
        assume(&mut costs, copy / LONG as f64);
    }
    let mut read = |len: usize| shortest(|| bowline_shm::read_own(&from[..len], &mut into).ok());
    if let (Some(short), Some(long)) = (read(SHORT), read(LONG)) {
        let per_byte = ((long - short) / (LONG - SHORT) as f64).max(0.0);
        let required = (short - per_byte * SHORT as f64).max(0.0);
        for class in ["get", "put"] {
            learn(&mut costs, "shm", &format!("{class}.required"), required);
            learn(&mut costs, "shm", &format!("{class}.per_byte"), per_byte);
        }
    }
    costs
}

/// Whether a copy can take so many nanoseconds for each byte.
fn is_plausible(copy: f64) -> bool {
    copy > 0.0 && copy < IMPLAUSIBLE
}

/// What one process cannot measure, from what a byte's copy costs.
fn assume(costs: &mut Costs, copy: f64) {
    let figure = Figure { value: handover() * copy, origin: Origin::Assumed };
    costs.learn("shm", "message.per_byte", figure);
}

/// The shortest of some runs, in nanoseconds; `None` when one fails.
fn shortest(mut run: impl FnMut() -> Option<()>) -> Option<f64> {
    let mut best = Duration::MAX;
    // The first touches pages and caches.
    for _ in 0..=TRIES {
        let start = Instant::now();
        run()?;
        best = best.min(start.elapsed());
    }
    Some(best.as_nanos() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(value: f64, origin: Origin) -> Figure {
        Figure { value, origin }
    }

    #[test]
    fn figures_are_remembered_by_site_and_calibrated_ones_stay() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deep/costs.json");
        let mut costs = Costs::default();
        costs.learn("shm", "copy", figure(0.5, Origin::Calibrated));
        remember(&path, &costs).unwrap();
        let mut costs = Costs::default();
        costs.learn("shm", "copy", figure(0.1, Origin::Probed));
        costs.learn("shm", "get.required", figure(700.0, Origin::Probed));
        remember(&path, &costs).unwrap();
        let read = Book::read(&path).costs(&site()).unwrap();
        let mut known: Vec<_> = read.known().to_vec();
        known.sort_by(|a, b| a.1.cmp(&b.1));
        assert_eq!(known[0], ("shm".into(), "copy".into(), figure(0.5, Origin::Calibrated)));
        assert_eq!(known[1], ("shm".into(), "get.required".into(), figure(700.0, Origin::Probed)));
        // What is assumed follows from what is known, and is not remembered.
        let assumed = figure(0.5 * handover(), Origin::Assumed);
        assert_eq!(known[2], ("shm".into(), "message.per_byte".into(), assumed));
        assert_eq!(known.len(), 3);
        assert!(Book::read(&path).costs("another machine").is_none());
        // What only an emulator measures is as good as nothing.
        let mut costs = Costs::default();
        costs.learn("shm", "copy", figure(22.0, Origin::Probed));
        forget(&path).unwrap();
        remember(&path, &costs).unwrap();
        assert!(Book::read(&path).costs(&site()).is_none());
        forget(&path).unwrap();
        assert!(Book::read(&path).costs(&site()).is_none());
    }

    #[test]
    fn lists_of_processors_are_counted() {
        for (list, processors) in [("0-1\n", 2), ("0", 1), ("0-3,8,10-11", 7), ("", 0), ("x-", 0)] {
            assert_eq!(count(list), processors, "{list}");
        }
    }

    #[test]
    fn damage_is_as_good_as_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("costs.json");
        for text in ["", "{", "[]", "{\"sites\":{\"a\":[{}]}}", "\u{0}\u{1}"] {
            fs::write(&path, text).unwrap();
            assert_eq!(Book::read(&path), Book::default(), "{text}");
        }
        // A place where nothing can be written: predictions without memory.
        let below = path.join("below a file");
        assert!(remember(&below, &Costs::default()).is_err());
        assert!(!measured(&below, "here").known().is_empty());
    }

    #[test]
    fn a_process_measures_copies_alone() {
        let costs = probe();
        let names: Vec<&str> = costs.known().iter().map(|(_, name, _)| name.as_str()).collect();
        assert!(names.contains(&"copy") && names.contains(&"get.required"), "{names:?}");
        assert!(
            costs.known().iter().all(|(.., f)| f.value >= 0.0 && f.origin < Origin::Calibrated)
        );
    }
}
