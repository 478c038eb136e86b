//! The log: events of all layers, which go through `tracing`, to the standard error stream.
//!
//! A program that has a subscriber of its own when it calls [`init`](crate::init()) keeps it. Where
//! there is none, the library installs a plain one: warnings and errors, or what `BOWLINE_LOG` asks for.
//! Every event is one line and one write, so that ranks which write to the same place do not mix their
//! texts within a line. [`disable`] keeps the library from installing it.

use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::sync::OnceLock;

use bowline_base::config::{BadValue, Config, ConfigError, Setting};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Metadata, Subscriber, dispatcher};

bowline_base::settings! {
    /// Settings of the log.
    pub const SETTINGS = [
        /// Which events a rank, or the `bowline` command, writes to its standard error stream, unless
        /// the program has a subscriber of its own: off, error, warn, info, debug, trace, or a list
        /// such as `warn,bowline_ucp=debug`.
        pub LOG: String = Setting::<String>::text("BOWLINE_LOG", "warn")
            .cost("time for every event that is written")
            .change("when something does not go as expected");
    ];
}

/// Whether the library may install its subscriber; decided once in a process.
static ENABLED: OnceLock<bool> = OnceLock::new();

/// This rank's number, when it is known.
static RANK: OnceLock<u32> = OnceLock::new();

/// Keeps the library from installing its subscriber in this process: for programs that install one of
/// their own later than they call [`init`](crate::init()), or that want no log. `true` if that is how it
/// will be; `false` where the subscriber was installed already.
pub fn disable() -> bool {
    !ENABLED.get_or_init(|| false)
}

/// Installs the subscriber, unless the program has one, has [disabled](disable) it or this was done
/// before. `init`, `join` and the like call it.
///
/// # Errors
/// When the setting's value is no list of levels.
pub fn start(config: &Config) -> Result<(), ConfigError> {
    let filter = filter(config)?;
    ENABLED.get_or_init(|| {
        if dispatcher::has_been_set() {
            return false;
        }
        // Nothing is lost where another thread has just installed one: that is the program's.
        let _ = dispatcher::set_global_default(Dispatch::new(Lines { filter }));
        true
    });
    Ok(())
}

/// From now on each line names the rank.
pub(crate) fn name_rank(rank: u32) {
    let _ = RANK.set(rank);
}

/// The filter that the setting asks for.
pub(crate) fn filter(config: &Config) -> Result<Filter, ConfigError> {
    let value = config.get(LOG);
    Filter::parse(&value).ok_or_else(|| {
        let expected = "off, error, warn, info, debug or trace, or a list such as \
                        warn,bowline_ucp=debug";
        ConfigError::BadValues(vec![BadValue {
            name: LOG.name().to_owned(),
            value,
            expected: expected.to_owned(),
            default: "warn".to_owned(),
        }])
    })
}

/// Which events are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Filter {
    /// Of targets that the list does not name.
    others: LevelFilter,
    /// By the beginning of a target's path, the longest first.
    targets: Vec<(String, LevelFilter)>,
}

impl Filter {
    /// `None` when the text is no list of levels.
    fn parse(text: &str) -> Option<Self> {
        let mut filter = Self { others: LevelFilter::WARN, targets: Vec::new() };
        if text.trim().is_empty() {
            return Some(filter);
        }
        let mut named = false;
        for item in text.split(',') {
            match item.split_once('=') {
                None if !named => {
                    filter.others = level(item)?;
                    named = true;
                }
                Some((target, of_target)) if is_path(target.trim()) => {
                    filter.targets.push((target.trim().to_owned(), level(of_target)?));
                }
                _ => return None,
            }
        }
        if !named {
            filter.others = LevelFilter::OFF;
        }
        filter.targets.sort_by_key(|(target, _)| std::cmp::Reverse(target.len()));
        Some(filter)
    }

    fn level_of(&self, target: &str) -> LevelFilter {
        let inside = |path: &str| {
            target.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        let named = self.targets.iter().find(|(path, _)| inside(path));
        named.map_or(self.others, |&(_, level)| level)
    }

    fn most(&self) -> LevelFilter {
        self.targets.iter().map(|&(_, level)| level).fold(self.others, Ord::max)
    }
}

fn level(name: &str) -> Option<LevelFilter> {
    const NAMES: [(&str, LevelFilter); 6] = [
        ("off", LevelFilter::OFF),
        ("error", LevelFilter::ERROR),
        ("warn", LevelFilter::WARN),
        ("info", LevelFilter::INFO),
        ("debug", LevelFilter::DEBUG),
        ("trace", LevelFilter::TRACE),
    ];
    let name = name.trim();
    NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|&(_, level)| level)
}

fn is_path(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':')
}

/// Writes each event as one line. Spans are not shown; the layers have none.
#[derive(Debug)]
struct Lines {
    filter: Filter,
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.filter.level_of(metadata.target())
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.filter.most())
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let line = line(event, RANK.get().copied());
        // A stream that is closed or full takes no word about that either.
        let _ = std::io::stderr().lock().write_all(line.as_bytes());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// An event's line: level, rank, target, message and the other fields.
fn line(event: &Event<'_>, rank: Option<u32>) -> String {
    let metadata = event.metadata();
    let mut text = format!("{:>5} ", metadata.level().as_str());
    if let Some(rank) = rank {
        // Writing to a string does not fail, here and below.
        let _ = write!(text, "rank {rank} ");
    }
    let _ = write!(text, "{}:", metadata.target());
    let mut fields = Fields { message: String::new(), others: String::new() };
    event.record(&mut fields);
    let _ = write!(text, "{}{}", fields.message, fields.others);
    text = text.replace('\n', "; ");
    text.push('\n');
    text
}

/// The fields of an event, as text.
struct Fields {
    message: String,
    others: String,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.record_debug(field, &format_args!("{value}")),
            _ => self.record_debug(field, &value),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.message, " {value:?}"),
            name => write!(self.others, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests;
