//! Typed configuration from `BOWLINE_*` environment variables.
//!
//! Each crate declares its settings with [`settings!`](crate::settings!): a typed constant for
//! each of them and a table of all. The facade joins the tables and reads the environment once:
//!
//! ```text
//!   crate A: SETTINGS ─┐
//!   crate B: SETTINGS ─┼─► Config::from_env ─► Config ─► config.get(RING_SLOTS) -> u32
//!   environment ───────┘          └► errors (bad values), warnings (unknown names)
//! ```
//!
//! A wrong type is a compile error, since the constant carries it; a default outside its own range
//! or a setting without a sentence on its cost is one too. A name is written once. Values
//! remember where they came from.
//!
//! It is not a place for per-operation hints, nor for what the launcher passes to a rank: those names
//! are listed in [`INTERNAL`] so that they are not taken for misspelt settings. Reading a value
//! is a search in a sorted table: do it when an object is opened, not per message.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::time::Duration;

use thiserror::Error;

mod setting;
#[cfg(test)]
mod tests;
mod text;

pub use setting::{Choice, Descriptor, Kind, Setting, SettingType};
pub use text::{show_bytes, show_time};

/// What every variable of Bowline starts with.
pub const PREFIX: &str = "BOWLINE_";

/// Variables that the launcher hands to its ranks. They are no settings and have no default; a
/// person does not write them.
pub const INTERNAL: &[&str] = &[
    "BOWLINE_JOB_FD",
    "BOWLINE_JOB_ID",
    "BOWLINE_LAUNCHER_FD",
    "BOWLINE_LOCAL_RANK",
    "BOWLINE_LOCAL_SIZE",
    "BOWLINE_NODE_ID",
    "BOWLINE_NODE_RANK",
    "BOWLINE_RANK",
    "BOWLINE_SIZE",
];

/// A value of any type; `S` is the text's home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum Value<S> {
    /// Bowline chooses.
    Auto,
    /// Bytes or an integer.
    Number(u64),
    /// Yes or no.
    Switch(bool),
    /// A time.
    Time(Duration),
    /// Place in the list of choices.
    Choice(usize),
    /// Free text.
    Text(S),
}

/// Where a value came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody said anything: the default.
    Default,
    /// The environment variable of that name.
    Environment,
    /// The program or its command line, by [`Config::set`] or [`Config::set_text`].
    Program,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "default",
            Self::Environment => "environment",
            Self::Program => "program",
        })
    }
}

/// A value that its setting refuses.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{name}={value:?} cannot be used: expected {expected}; without the variable it is {default}"
)]
pub struct BadValue {
    /// The variable.
    pub name: String,
    /// What it held.
    pub value: String,
    /// The form that it must have.
    pub expected: String,
    /// What it would be by default.
    pub default: String,
}

/// Why a configuration cannot be used.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Variables with values that their settings refuse; all of them, so that they can be
    /// corrected at once.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    BadValues(Vec<BadValue>),
    /// [`Config::set_text`] was given a name that no table has.
    #[error("{0}")]
    UnknownName(Unknown),
}

crate::debug_by_display!(ConfigError);

/// A `BOWLINE_` name that no table has: most likely misspelt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// The name.
    pub name: String,
    /// The setting whose name is nearest, where one is near.
    pub nearest: Option<&'static str>,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not a setting and has no effect", self.name)?;
        match self.nearest {
            Some(nearest) => write!(f, "; the nearest one is {nearest}"),
            None => write!(f, "; `bowline info --config` lists the settings"),
        }
    }
}

/// One line of `bowline info --config`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingRow {
    /// The variable.
    pub name: &'static str,
    /// Its value now, as it would be written.
    pub value: String,
    /// Its default, as it would be written.
    pub default: String,
    /// Where the value came from.
    pub origin: Origin,
    /// The form of a value.
    pub form: String,
    /// What it is.
    pub doc: &'static str,
    /// What it costs or trades.
    pub cost: &'static str,
    /// When to change it.
    pub change: &'static str,
}

#[derive(Clone, Debug)]
struct Entry {
    descriptor: Descriptor,
    value: Value<String>,
    origin: Origin,
}

/// The settings of a process or a context, with their values.
#[derive(Clone, Debug)]
pub struct Config {
    entries: BTreeMap<&'static str, Entry>,
    unknown: Vec<Unknown>,
}

impl Config {
    /// Every setting of `tables` at its default.
    ///
    /// # Panics
    /// When two tables declare one name: an error of the program, seen at every start.
    pub fn defaults(tables: &[&[Descriptor]]) -> Self {
        let mut entries = BTreeMap::new();
        for descriptor in tables.iter().copied().flatten().copied() {
            let value = descriptor.default_value();
            let entry = Entry { descriptor, value, origin: Origin::Default };
            let twice = entries.insert(descriptor.name(), entry).is_some();
            assert!(!twice, "two tables declare the setting {}", descriptor.name());
        }
        Self { entries, unknown: Vec::new() }
    }

    /// The settings of `tables` as the environment has them.
    ///
    /// # Errors
    /// [`ConfigError::BadValues`] names every variable that cannot be used.
    pub fn from_env(tables: &[&[Descriptor]]) -> Result<Self, ConfigError> {
        Self::from_pairs(std::env::vars_os(), tables)
    }

    /// The settings of `tables` as `pairs` of name and value have them; names that do not start
    /// with [`PREFIX`] are somebody else's. Of two pairs with one name the later counts.
    ///
    /// # Errors
    /// [`ConfigError::BadValues`] names every variable that cannot be used.
    pub fn from_pairs<N, V>(
        pairs: impl IntoIterator<Item = (N, V)>,
        tables: &[&[Descriptor]],
    ) -> Result<Self, ConfigError>
    where
        N: Into<OsString>,
        V: AsRef<OsStr>,
    {
        let mut config = Self::defaults(tables);
        let mut bad = Vec::new();
        for (name, value) in pairs {
            let name = name.into().to_string_lossy().into_owned();
            if !name.starts_with(PREFIX) || INTERNAL.contains(&name.as_str()) {
                continue;
            }
            let Some(entry) = config.entries.get_mut(name.as_str()) else {
                let nearest = config.nearest(&name);
                config.unknown.push(Unknown { name, nearest });
                continue;
            };
            // A value that is not text is no value of any form, so the replaced characters only
            // serve to show it.
            match entry.descriptor.parse(&value.as_ref().to_string_lossy()) {
                Ok(value) => {
                    entry.value = value;
                    entry.origin = Origin::Environment;
                }
                Err(error) => bad.push(error),
            }
        }
        config.unknown.sort_by(|a, b| a.name.cmp(&b.name));
        bad.sort_by(|a: &BadValue, b| a.name.cmp(&b.name));
        if bad.is_empty() { Ok(config) } else { Err(ConfigError::BadValues(bad)) }
    }

    /// The value of a setting.
    ///
    /// # Panics
    /// When the table that holds `setting` was not given to this configuration: its variable
    /// would have no effect, which must not pass unnoticed.
    pub fn get<T: SettingType>(&self, setting: Setting<T>) -> T {
        T::from_value(&self.entry(setting.name()).value)
    }

    /// Where the value of a setting came from.
    ///
    /// # Panics
    /// As [`Config::get`].
    pub fn origin<T: SettingType>(&self, setting: Setting<T>) -> Origin {
        self.entry(setting.name()).origin
    }

    /// Gives a setting a value, which then counts as set by the program.
    ///
    /// # Errors
    /// [`ConfigError::BadValues`] when the value is outside of the setting's range.
    ///
    /// # Panics
    /// As [`Config::get`].
    pub fn set<T: SettingType>(&mut self, setting: Setting<T>, to: T) -> Result<(), ConfigError> {
        let value = to.into_value();
        let name = setting.name();
        let entry = self.entries.get_mut(name).unwrap_or_else(|| no_table(name));
        let text = entry.descriptor.show(&value);
        // Every value is checked here, wherever it comes from: what could not be written cannot be set.
        entry.value =
            entry.descriptor.parse(&text).map_err(|bad| ConfigError::BadValues(vec![bad]))?;
        entry.origin = Origin::Program;
        Ok(())
    }

    /// Gives the setting `name` a value written as in the environment, for a command line's
    /// `--set NAME=VALUE`.
    ///
    /// # Errors
    /// For an unknown name or a value that the setting refuses.
    pub fn set_text(&mut self, name: &str, text: &str) -> Result<(), ConfigError> {
        let nearest = self.nearest(name);
        let Some(entry) = self.entries.get_mut(name) else {
            return Err(ConfigError::UnknownName(Unknown { name: name.to_owned(), nearest }));
        };
        entry.value =
            entry.descriptor.parse(text).map_err(|bad| ConfigError::BadValues(vec![bad]))?;
        entry.origin = Origin::Program;
        Ok(())
    }

    /// `BOWLINE_` names that no setting has, in order of name; the program that starts the process shows
    /// them once.
    pub fn unknown(&self) -> &[Unknown] {
        &self.unknown
    }

    /// Every setting, in order of name.
    pub fn rows(&self) -> impl Iterator<Item = SettingRow> + '_ {
        self.entries.values().map(|entry| SettingRow {
            name: entry.descriptor.name(),
            value: entry.descriptor.show(&entry.value),
            default: entry.descriptor.show_default(),
            origin: entry.origin,
            form: entry.descriptor.form(),
            doc: entry.descriptor.doc(),
            cost: entry.descriptor.cost(),
            change: entry.descriptor.change(),
        })
    }

    fn entry(&self, name: &str) -> &Entry {
        self.entries.get(name).unwrap_or_else(|| no_table(name))
    }

    /// The known name most like `name`, if it is like it at all.
    fn nearest(&self, name: &str) -> Option<&'static str> {
        let without = |name: &str| name.strip_prefix(PREFIX).unwrap_or(name).to_ascii_uppercase();
        let asked = without(name);
        let score = |known: &str| strsim::jaro_winkler(&asked, &without(known));
        let best = self.entries.keys().copied().max_by(|a, b| score(a).total_cmp(&score(b)))?;
        // Names below this have little more than letters in common.
        (score(best) >= 0.75).then_some(best)
    }
}

#[cold]
fn no_table(name: &str) -> ! {
    panic!("the table that declares {name} was not given to this configuration")
}
