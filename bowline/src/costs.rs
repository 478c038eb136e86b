//! What this machine's transports cost: remembered from before, else measured once.
//!
//! A file in the user's cache directory has the figures of each *site*: processor, kernel, version
//! of the library and the processors that the process may use. Where the site is not in it, the
//! first process measures what one process can measure alone (plain copies, and the kernel's copies
//! between processes; some 100 microseconds) and writes it down; `bowline calibrate` adds what takes
//! two ranks. Nothing is measured while ranks share processors.
//!
//! Figures steer the choice of protocols and nothing else: a file in the cache directory that is missing
//! or cannot be written costs a prediction, never a job. A file that the user has named must be usable;
//! one that is something else is never written.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bowline_base::config::{Config, Setting};
use bowline_base::copy::is_aliased;
use bowline_base::sync::LINE;
use bowline_model::transport::{CostOrigin, Figure, KnownCosts};
use rustix::fs::{FlockOperation, flock};
use thiserror::Error;

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
const FILE: &str = "bowline/costs";

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
/// learned there. From its caches a processor copies in 0.02 to 0.1; beside six programs that copy memory 0.045 was the most
/// that was seen. Under valgrind it is 0.5 to 1.0.
const IMPLAUSIBLE: f64 = 0.2;

/// Repetitions; the shortest counts.
const TRIES: usize = 5;

/// The first line of the file, by which it is known to be ours.
const TITLE: &str = "bowline costs, version 1";

/// Why a file cannot be used for costs. It is never written then.
#[derive(Error)]
#[non_exhaustive]
pub enum CostFileError {
    /// Something else is in it.
    #[error(
        "{path} is not a file of costs, for its first line is not `{TITLE}`; name another file with BOWLINE_CALIBRATION, or remove this one"
    )]
    Foreign {
        /// The file.
        path: String,
    },
    /// It cannot be read, or there is no place for it.
    #[error("cannot {act} {path}: {source}; name another file with BOWLINE_CALIBRATION, or off")]
    Access {
        /// What was tried.
        act: &'static str,
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
}

bowline_base::debug_by_display!(CostFileError);

impl CostFileError {
    fn access(act: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.display().to_string();
        move |source| Self::Access { act, path, source }
    }
}

/// A figure as the file has it: a line of four words.
#[derive(Clone, Debug, PartialEq)]
struct Entry {
    transport: String,
    figure: String,
    /// Nanoseconds, or nanoseconds per byte.
    value: f64,
    origin: String,
}

impl Entry {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace().map(str::to_owned);
        let (transport, figure) = (words.next()?, words.next()?);
        let value = words.next()?.parse().ok().filter(|value: &f64| value.is_finite())?;
        let origin = words.next()?;
        words.next().is_none().then_some(Self { transport, figure, value, origin })
    }
}

/// The file: the title, and for each site a line `site NAME` with the lines of its entries below.
#[derive(Clone, Debug, Default, PartialEq)]
struct Book {
    /// Entries by site.
    sites: BTreeMap<String, Vec<Entry>>,
}

impl Book {
    /// What a file says; nothing when there is none or it is empty. Lines that are damaged are left out.
    fn read(path: &Path) -> Result<Self, CostFileError> {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(CostFileError::access("read", path)(error)),
        };
        let text = String::from_utf8_lossy(&bytes);
        let mut lines = text.lines();
        let mut book = Self::default();
        match lines.next() {
            None => return Ok(book),
            Some(TITLE) => {}
            Some(_) => return Err(CostFileError::Foreign { path: path.display().to_string() }),
        }
        let mut entries = None;
        for line in lines {
            if let Some(site) = line.strip_prefix("site ") {
                entries = Some(book.sites.entry(site.to_owned()).or_default());
            } else if let (Some(entries), Some(entry)) = (&mut entries, Entry::parse(line)) {
                entries.push(entry);
            } else {
                tracing::warn!(path = %path.display(), line, "a line of the remembered costs is damaged and ignored");
            }
        }
        Ok(book)
    }

    fn text(&self) -> String {
        let mut text = format!("{TITLE}\n");
        for (site, entries) in &self.sites {
            text += &format!("site {site}\n");
            for Entry { transport, figure, value, origin } in entries {
                text += &format!("{transport} {figure} {value} {origin}\n");
            }
        }
        text
    }

    /// Puts it in the place of the file, whole or not at all.
    fn write(&self, path: &Path) -> std::io::Result<()> {
        let fresh = path.with_extension(format!("{}.new", std::process::id()));
        let mut file = File::create(&fresh)?;
        let written =
            file.write_all(self.text().as_bytes()).and_then(|()| fs::rename(&fresh, path));
        written.inspect_err(|_| drop(fs::remove_file(&fresh)))
    }

    fn costs(&self, site: &str) -> Option<KnownCosts> {
        let mut costs = KnownCosts::default();
        let entries = self.sites.get(site)?;
        // Those that somebody has calibrated, or written there, are his own.
        let probed = |e: &Entry| e.figure == "copy" && e.origin == CostOrigin::Probed.name();
        if entries.iter().any(|e| probed(e) && !is_plausible(e.value)) {
            return None;
        }
        for entry in entries {
            // What was assumed is not: it follows anew from what was measured.
            let origin = [CostOrigin::Probed, CostOrigin::Calibrated];
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
    fn learn(&mut self, site: &str, costs: &KnownCosts) {
        let entries = self.sites.entry(site.to_owned()).or_default();
        for (transport, name, Figure { value, origin }) in costs.known() {
            let same = |e: &Entry| e.transport == *transport && e.figure == *name;
            let surer = entries.iter().any(|e| {
                same(e)
                    && e.origin == CostOrigin::Calibrated.name()
                    && *origin != CostOrigin::Calibrated
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
    place(&config.get(CALIBRATION), FILE)
}

/// The file that a setting names: `auto`, one of this name in the user's cache directory, `off`, none, or its path.
pub(crate) fn place(setting: &str, name: &str) -> Option<PathBuf> {
    match setting.trim() {
        "off" => None,
        "" | "auto" => {
            // A relative one, or an empty one, would lead into the directory where the process happens to run.
            let named = |variable| std::env::var_os(variable).map(PathBuf::from);
            let absolute = |variable| named(variable).filter(|path| path.is_absolute());
            let home = || Some(absolute("HOME")?.join(".cache"));
            Some(absolute("XDG_CACHE_HOME").or_else(home)?.join(name))
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
pub fn known(config: &Config, ranks: u32, shared: bool) -> KnownCosts {
    let quiet = !shared && ranks <= count(&processors());
    // Ranks that are threads ask one after the other.
    static KNOWN: Mutex<Option<(PathBuf, KnownCosts)>> = Mutex::new(None);
    let Some(path) = file(config) else { return KnownCosts::default() };
    let mut kept = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((from, costs)) = &*kept
        && *from == path
    {
        return costs.clone();
    }
    let site = site();
    let book = match Book::read(&path) {
        Ok(book) => book,
        Err(error) => {
            tracing::warn!(%error, "what transports cost is assumed");
            return KnownCosts::default();
        }
    };
    let costs = match book.costs(&site) {
        Some(costs) => costs,
        None if quiet => measured(&path, &site),
        // A start on a quiet machine measures.
        None => return KnownCosts::default(),
    };
    *kept = Some((path, costs.clone()));
    costs
}

/// Finds out whether the file that the user has named can be used: it is ours, or it can be made. Where
/// nobody has named one, a file in its place that is of no use is warned of and left alone ([`known`]): it
/// may be the cache of another user, whose home this process has inherited.
///
/// # Errors
/// When it cannot.
pub(crate) fn check(config: &Config) -> Result<(), CostFileError> {
    let Some(path) = file(config) else { return Ok(()) };
    if matches!(config.get(CALIBRATION).trim(), "" | "auto") {
        return Ok(());
    }
    Book::read(&path)?;
    if path.exists() { Ok(()) } else { writable(&path) }
}

/// Finds out whether figures can be written to a file, before they are measured.
///
/// # Errors
/// When it is something else than a file of costs, or cannot be written.
pub fn writable(path: &Path) -> Result<(), CostFileError> {
    Book::read(path)?;
    lock(path).map(drop).map_err(CostFileError::access("write", path))
}

/// What is remembered of this machine.
///
/// # Errors
/// When the file is something else than a file of costs, or cannot be read.
pub fn remembered(config: &Config) -> Result<KnownCosts, CostFileError> {
    let Some(path) = file(config) else { return Ok(KnownCosts::default()) };
    Ok(Book::read(&path)?.costs(&site()).unwrap_or_default())
}

/// What nobody has measured yet, unless somebody has in the meantime.
fn measured(path: &Path, site: &str) -> KnownCosts {
    let lock = match lock(path) {
        Ok(lock) => Some(lock),
        Err(error) => {
            tracing::debug!(path = %path.display(), %error, "costs cannot be remembered");
            None
        }
    };
    if lock.is_some()
        && let Ok(book) = Book::read(path)
        && let Some(costs) = book.costs(site)
    {
        return costs;
    }
    let costs = probe();
    if lock.is_some()
        && !costs.known().is_empty()
        && let Ok(mut book) = Book::read(path)
    {
        book.learn(site, &costs);
        if let Err(error) = book.write(path) {
            tracing::debug!(path = %path.display(), %error, "costs cannot be remembered");
        }
    }
    costs
}

/// Locks the file, after waiting a little for another process that has it.
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
/// When the file is something else than a file of costs, or cannot be written.
pub fn remember(path: &Path, costs: &KnownCosts) -> Result<(), CostFileError> {
    Book::read(path)?;
    let _lock = lock(path).map_err(CostFileError::access("write", path))?;
    let mut book = Book::read(path)?;
    book.learn(&site(), costs);
    book.write(path).map_err(CostFileError::access("write", path))
}

/// Forgets this site's figures.
///
/// # Errors
/// When the file is something else than a file of costs, or cannot be written.
pub fn forget(path: &Path) -> Result<(), CostFileError> {
    if Book::read(path)?.sites.is_empty() {
        return Ok(());
    }
    let _lock = lock(path).map_err(CostFileError::access("write", path))?;
    let mut book = Book::read(path)?;
    match book.sites.remove(&site()) {
        Some(_) => book.write(path).map_err(CostFileError::access("write", path)),
        None => Ok(()),
    }
}

/// Measures what one process can measure: a copy, and reading a process's memory by the kernel.
fn probe() -> KnownCosts {
    let from = vec![1u8; LONG];
    let mut space = vec![0u8; LONG + 2 * LINE];
    // Where an allocator has put both one behind the other, a string instruction takes ten times as long.
    let is_slow = is_aliased(from.as_ptr().addr(), space.as_ptr().addr());
    let into = &mut space[if is_slow { 2 * LINE } else { 0 }..][..LONG];
    let mut costs = KnownCosts::default();
    let learn = |costs: &mut KnownCosts, transport: &str, figure: &str, value: f64| {
        costs.learn(transport, figure, Figure { value, origin: CostOrigin::Probed });
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
    let mut read = |len: usize| shortest(|| bowline_shm::read_own(&from[..len], into).ok());
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
fn assume(costs: &mut KnownCosts, copy: f64) {
    let figure = Figure { value: handover() * copy, origin: CostOrigin::Assumed };
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

    fn figure(value: f64, origin: CostOrigin) -> Figure {
        Figure { value, origin }
    }

    #[test]
    fn figures_are_remembered_by_site_and_calibrated_ones_stay() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deep/costs");
        let mut costs = KnownCosts::default();
        costs.learn("shm", "copy", figure(0.5, CostOrigin::Calibrated));
        remember(&path, &costs).unwrap();
        let mut costs = KnownCosts::default();
        costs.learn("shm", "copy", figure(0.1, CostOrigin::Probed));
        costs.learn("shm", "get.required", figure(700.0, CostOrigin::Probed));
        remember(&path, &costs).unwrap();
        let read = Book::read(&path).unwrap().costs(&site()).unwrap();
        let mut known: Vec<_> = read.known().to_vec();
        known.sort_by(|a, b| a.1.cmp(&b.1));
        assert_eq!(known[0], ("shm".into(), "copy".into(), figure(0.5, CostOrigin::Calibrated)));
        assert_eq!(
            known[1],
            ("shm".into(), "get.required".into(), figure(700.0, CostOrigin::Probed))
        );
        // What is assumed follows from what is known, and is not remembered.
        let assumed = figure(0.5 * handover(), CostOrigin::Assumed);
        assert_eq!(known[2], ("shm".into(), "message.per_byte".into(), assumed));
        assert_eq!(known.len(), 3);
        assert!(Book::read(&path).unwrap().costs("another machine").is_none());
        // What only an emulator or valgrind measures is as good as nothing.
        for copy in [22.0, 0.97, 0.36] {
            let mut costs = KnownCosts::default();
            costs.learn("shm", "copy", figure(copy, CostOrigin::Probed));
            forget(&path).unwrap();
            remember(&path, &costs).unwrap();
            assert!(Book::read(&path).unwrap().costs(&site()).is_none());
        }
        forget(&path).unwrap();
        assert!(Book::read(&path).unwrap().costs(&site()).is_none());
    }

    #[test]
    fn lists_of_processors_are_counted() {
        for (list, processors) in [("0-1\n", 2), ("0", 1), ("0-3,8,10-11", 7), ("", 0), ("x-", 0)] {
            assert_eq!(count(list), processors, "{list}");
        }
    }

    #[test]
    fn damaged_lines_are_left_out() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("costs");
        assert_eq!(Book::read(&path).unwrap(), Book::default(), "no file");
        for text in
            ["", TITLE, &format!("{TITLE}\nshm copy 1 probed\nsite a\nshm copy nan probed\n")]
        {
            fs::write(&path, text).unwrap();
            assert!(Book::read(&path).unwrap().sites.values().all(Vec::is_empty), "{text}");
        }
        let good = format!(
            "{TITLE}\nsite a b\nshm copy 0.25 probed\nshm\u{0} copy\ntcp copy 1 probed x\n"
        );
        fs::write(&path, good).unwrap();
        let book = Book::read(&path).unwrap();
        assert_eq!(book.text(), format!("{TITLE}\nsite a b\nshm copy 0.25 probed\n"));
    }

    #[test]
    fn a_file_that_is_something_else_stays_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("thesis.txt");
        let mut config = Config::defaults(crate::stack::SETTINGS);
        config.set_text("BOWLINE_CALIBRATION", path.to_str().unwrap()).unwrap();
        for text in ["Chapter 1\n", "{\"sites\":{}}", "\n", "bowline costs, version 12\n"] {
            fs::write(&path, text).unwrap();
            let mut figures = KnownCosts::default();
            figures.learn("shm", "copy", figure(0.5, CostOrigin::Calibrated));
            let foreign = |error| matches!(error, CostFileError::Foreign { .. });
            assert!(foreign(remember(&path, &figures).unwrap_err()), "{text}");
            assert!(foreign(forget(&path).unwrap_err()), "{text}");
            assert!(foreign(writable(&path).unwrap_err()), "{text}");
            assert!(foreign(remembered(&config).unwrap_err()), "{text}");
            let error = crate::stack::check(&config).unwrap_err();
            assert!(error.to_string().contains("thesis.txt"), "{error}");
            known(&config, 1, false);
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing lies beside it");
    }

    #[test]
    fn a_named_place_where_nothing_can_be_written_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a file");
        fs::write(&file, "").unwrap();
        let below = file.join("below");
        let mut config = Config::defaults(crate::stack::SETTINGS);
        config.set_text("BOWLINE_CALIBRATION", below.to_str().unwrap()).unwrap();
        let error = crate::stack::check(&config).unwrap_err().to_string();
        assert!(error.contains("BOWLINE_CALIBRATION"), "{error}");
        assert!(remember(&below, &KnownCosts::default()).is_err());
        // Predictions without memory.
        assert!(!measured(&below, "here").known().is_empty());
    }

    #[test]
    fn a_process_measures_copies_alone() {
        let costs = probe();
        let names: Vec<&str> = costs.known().iter().map(|(_, name, _)| name.as_str()).collect();
        assert!(names.contains(&"copy") && names.contains(&"get.required"), "{names:?}");
        assert!(
            costs.known().iter().all(|(.., f)| f.value >= 0.0 && f.origin < CostOrigin::Calibrated)
        );
    }
}
