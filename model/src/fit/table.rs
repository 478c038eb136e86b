//! The file that keeps fits, for those who choose algorithms later: JSON, with a version, by site and transport.
//!
//! ```json
//! {"format": "bowline model", "version": 1, "entries": [
//!   {"site": "AMD EPYC; 6.18; processors 0-1", "transport": "shm", "ranks": 13, "threads": false, "shared": true,
//!    "sizes": [{"size": 8, "alpha_p_ns": 63.9, "alpha_r_ns": 8.9, "origin": "measured"}],
//!    "rejected": [{"size": 131072, "alpha_p_ns": -48.5, "alpha_r_ns": 1077.1}],
//!    "operations": {"copy": 0.02, "reduce": 0.03}}]}
//! ```
//! A *site* is a line that distinguishes machines, in any words; nothing here reads it. A file is read as a whole
//! or refused with the reason. Where and when it is read is not this module's business: it takes and gives text.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::sizes::BySize;
use super::{PUBLISHED, SizeFit};
use crate::coll::price::Costs;
use crate::cost::{CostError, Pipelining};

/// What is written first, by which such files are known.
pub const FORMAT: &str = "bowline model";

/// The version that is written and read. It grows when the meaning of the file changes.
pub const VERSION: u32 = 1;

/// How parameters were come by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(clippy::exhaustive_enums, reason = "there is no third way")]
pub enum ParameterOrigin {
    /// Taken from elsewhere: another machine, a publication.
    Assumed,
    /// Fitted to times of this site and transport.
    Measured,
}

impl ParameterOrigin {
    /// Its name, as the file has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Assumed => "assumed",
            Self::Measured => "measured",
        }
    }
}

/// The parameters of one size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "a row of the file")]
pub struct Row {
    /// Bytes of a message.
    pub size: u64,
    /// alpha_p, ns.
    #[serde(rename = "alpha_p_ns")]
    pub pipelining: f64,
    /// alpha_r, ns.
    #[serde(rename = "alpha_r_ns")]
    pub required: f64,
    /// How they were come by.
    pub origin: ParameterOrigin,
}

/// A size at which the model does not hold, with what the fit said.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "a row of the file")]
pub struct Rejected {
    /// Bytes of a message.
    pub size: u64,
    /// alpha_p, ns.
    #[serde(rename = "alpha_p_ns")]
    pub pipelining: f64,
    /// alpha_r, ns.
    #[serde(rename = "alpha_r_ns")]
    pub required: f64,
}

/// One transport at one site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "an entry of the file")]
pub struct Entry {
    /// Where it was measured, in one line.
    pub site: String,
    /// The transport, by its name.
    pub transport: String,
    /// Ranks of the measurement.
    pub ranks: u32,
    /// Whether they were threads of one process.
    pub threads: bool,
    /// Whether they shared processors.
    pub shared: bool,
    /// The parameters, by size; at least one.
    pub sizes: Vec<Row>,
    /// Sizes at which the model does not hold.
    #[serde(default)]
    pub rejected: Vec<Rejected>,
    /// What a byte of an operation takes, ns, for those of [`Costs::OPERATIONS`] that were measured.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub operations: BTreeMap<String, f64>,
}

/// Everything that is kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FitTable {
    entries: Vec<Entry>,
}

/// The file as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: String,
    version: u32,
    entries: Vec<Entry>,
}

/// Why a text is no table.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TableError {
    /// It is something else.
    Foreign,
    /// It is a table of another version.
    Version {
        /// Which.
        found: u64,
    },
    /// It is damaged: not JSON, or without a field, or with one too many.
    Damaged {
        /// What and where.
        why: String,
    },
    /// What it says cannot be.
    Impossible {
        /// The transport of the entry.
        transport: String,
        /// What is wrong.
        why: String,
    },
}

impl std::fmt::Display for TableError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Foreign => {
                write!(out, "this is no table of costs: its `format` is not `{FORMAT}`")
            }
            Self::Version { found } => write!(
                out,
                "this table of costs has version {found}, and this program knows version {VERSION}: measure again, or \
                 use the program that wrote it"
            ),
            Self::Damaged { why } => write!(out, "this table of costs is damaged: {why}"),
            Self::Impossible { transport, why } => {
                write!(out, "this table of costs cannot be true (transport {transport}): {why}")
            }
        }
    }
}

impl std::error::Error for TableError {}

impl FitTable {
    /// Reads a table.
    ///
    /// # Errors
    /// The text is something else, of another version, damaged, or says what cannot be.
    pub fn parse(text: &[u8]) -> Result<Self, TableError> {
        let damaged = |error: serde_json::Error| TableError::Damaged { why: error.to_string() };
        let value: serde_json::Value = serde_json::from_slice(text).map_err(damaged)?;
        if value.get("format").and_then(serde_json::Value::as_str) != Some(FORMAT) {
            return Err(TableError::Foreign);
        }
        let version = value.get("version").and_then(serde_json::Value::as_u64);
        match version {
            Some(version) if version == u64::from(VERSION) => {}
            Some(found) => return Err(TableError::Version { found }),
            None => return Err(TableError::Damaged { why: "it has no version".into() }),
        }
        // Once more from the text, whose lines and columns errors then name.
        let file: File = serde_json::from_slice(text).map_err(damaged)?;
        let mut table = Self::default();
        for entry in file.entries {
            entry.check()?;
            if table.find(&entry.site, &entry.transport).is_some() {
                return Err(entry.impossible("it stands there twice for one site"));
            }
            table.entries.push(entry);
        }
        Ok(table)
    }

    /// The table as text, which [`FitTable::parse`] reads.
    ///
    /// # Errors
    /// As for an entry that is read: nothing is written that would be refused.
    pub fn text(&self) -> Result<String, TableError> {
        self.entries.iter().try_for_each(Entry::check)?;
        let file = File { format: FORMAT.into(), version: VERSION, entries: self.entries.clone() };
        let text = serde_json::to_string_pretty(&file);
        text.map(|text| text + "\n").map_err(|error| TableError::Damaged { why: error.to_string() })
    }

    /// All entries, in the order in which they were learned.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// What is known of a transport at a site.
    pub fn find(&self, site: &str, transport: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.site == site && entry.transport == transport)
    }

    /// Takes an entry in, in place of the one of the same site and transport. One that is assumed does not take the
    /// place of one that was measured: then nothing changes, and the answer is `false`.
    pub fn learn(&mut self, entry: Entry) -> bool {
        let same = |e: &Entry| e.site == entry.site && e.transport == entry.transport;
        let surer = |e: &Entry| e.origin() > entry.origin();
        if self.entries.iter().any(|e| same(e) && surer(e)) {
            return false;
        }
        self.entries.retain(|e| !same(e));
        self.entries.push(entry);
        true
    }

    /// Forgets a site; how many entries it had.
    pub fn forget(&mut self, site: &str) -> usize {
        let before = self.entries.len();
        self.entries.retain(|entry| entry.site != site);
        before - self.entries.len()
    }
}

impl Entry {
    /// What was measured, with `sizes` and `rejected` of fits, in ns.
    #[must_use]
    pub fn fitted(mut self, fits: &[SizeFit]) -> Self {
        let origin = ParameterOrigin::Measured;
        for fit in fits {
            match fit.cost {
                Ok(Pipelining { pipelining, required }) => {
                    self.sizes.push(Row { size: fit.size, pipelining, required, origin });
                }
                Err(CostError::Unphysical { pipelining, required }) => {
                    self.rejected.push(Rejected { size: fit.size, pipelining, required });
                }
            }
        }
        self
    }

    /// What was published of a Cray XC30, in the place of what nobody has measured. (Thesis, table 4.1.)
    pub fn published(site: &str, transport: &str) -> Self {
        const REJECTED: [(u64, f64, f64); 2] =
            [(131_072, -120.0, 30_100.0), (524_288, -1700.0, 119_300.0)];
        let origin = ParameterOrigin::Assumed;
        let row = |(size, pipelining, required)| Row { size, pipelining, required, origin };
        let rejected = |(size, pipelining, required)| Rejected { size, pipelining, required };
        Self {
            site: site.to_owned(),
            transport: transport.to_owned(),
            ranks: 0,
            threads: false,
            shared: false,
            sizes: PUBLISHED.map(row).into(),
            rejected: REJECTED.map(rejected).into(),
            operations: BTreeMap::new(),
        }
    }

    /// How its parameters were come by: measured if all of them were.
    pub fn origin(&self) -> ParameterOrigin {
        self.sizes.iter().map(|row| row.origin).min().unwrap_or(ParameterOrigin::Assumed)
    }

    /// The parameters as functions of the size, ns; `None` where the model holds at no size.
    pub fn by_size(&self) -> Option<BySize> {
        let row = |row: &Row| {
            (row.size, Pipelining { pipelining: row.pipelining, required: row.required })
        };
        let mut functions = BySize::through(self.sizes.iter().map(row).collect())?;
        let rejected = self.rejected.iter().map(|r| {
            let Rejected { size, pipelining, required } = *r;
            (size, CostError::Unphysical { pipelining, required })
        });
        functions.rejected = rejected.collect();
        functions.rejected.sort_by_key(|one| one.0);
        Some(functions)
    }

    /// The costs by which algorithms of collectives are chosen, as [`Costs::text_of_fit`] has them; `None` where the model
    /// holds at no size.
    pub fn costs(&self) -> Option<String> {
        let operations = self.operations.iter().map(|(name, value)| (name.as_str(), *value));
        Some(Costs::text_of_fit(&self.transport, (&self.by_size()?, self.shared), operations))
    }

    fn impossible(&self, why: impl Into<String>) -> TableError {
        TableError::Impossible { transport: self.transport.clone(), why: why.into() }
    }

    fn check(&self) -> Result<(), TableError> {
        if self.sizes.is_empty() {
            return Err(self.impossible("it has no size"));
        }
        for row in &self.sizes {
            Pipelining::new(row.pipelining, row.required)
                .map_err(|error| self.impossible(format!("{} bytes: {error}", row.size)))?;
        }
        for (name, time) in &self.operations {
            if !Costs::OPERATIONS.contains(&name.as_str()) || !time.is_finite() || *time < 0.0 {
                return Err(self.impossible(format!("a byte of {name:?} takes {time} ns")));
            }
        }
        let sizes = self.sizes.iter().map(|row| row.size);
        let mut all: Vec<u64> = sizes.chain(self.rejected.iter().map(|row| row.size)).collect();
        all.sort_unstable();
        match all.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(self.impossible(format!("{} bytes stand there twice", pair[0]))),
            None => Ok(()),
        }
    }
}
