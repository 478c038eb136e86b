//! What messages cost, by which the algorithms of collectives are chosen: as a setting says, as was fitted on this
//! machine, or as is assumed.
//!
//! The figures of [`costs`](crate::costs) steer which protocol carries a message; these are for the choice of
//! algorithms of collectives. `bowline model fit --keep` keeps its fits as JSON (crate `bowline-model`, module
//! `fit::table`), and beside them what jobs read: a title, and a line for each site and transport with its costs. A file
//! in the cache directory that cannot be used is left out with a warning; one that the user has named must be usable.
//! Rank 0 reads it, and what it finds is every rank's.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use bowline_base::config::{Config, Setting};
use bowline_model::coll::price::Costs;
use thiserror::Error;

use crate::choice::carriers;

bowline_base::settings! {
    /// Settings of the model.
    pub const SETTINGS = [
        /// Where `bowline model fit --keep` keeps what it has fitted, and jobs find it (see BOWLINE_COLL_COSTS): auto, a file in the user's cache directory; off, nowhere; else a file.
        pub MODEL: String = Setting::<String>::text("BOWLINE_MODEL", "auto")
            .cost("rank 0 reads the file when it starts, if there is one")
            .change("a file where the home directory is not writable or shared between different machines; off to have the same choices on every machine");
    ];
}

/// The file's name in the cache directory.
const FILE: &str = "bowline/model.json";

/// The first line of what jobs read.
const TITLE: &str = "bowline costs of collectives, version 1";

/// What jobs read, of sites with transports and their costs, as `BOWLINE_COLL_COSTS` has them.
pub fn text<'a>(costs: impl IntoIterator<Item = (&'a str, &'a str, String)>) -> String {
    let mut text = format!("{TITLE}\n");
    for (site, transport, costs) in costs {
        text += &format!("{site}\t{transport}\t{costs}\n");
    }
    text
}

/// The costs of a transport at a site.
fn find<'a>(text: &'a str, site: &str, transport: &str) -> Option<&'a str> {
    text.lines().skip(1).find_map(|line| {
        let costs = line.strip_prefix(site)?.strip_prefix('\t')?.strip_prefix(transport)?;
        let costs = costs.strip_prefix('\t')?;
        let known = costs.parse::<Costs>().inspect_err(|error| {
            tracing::warn!(
                "kept costs of {transport} are left out: {error}; fit and keep them again"
            );
        });
        known.is_ok().then_some(costs)
    })
}

/// Why a file of fits cannot be used.
#[derive(Error)]
#[non_exhaustive]
pub enum FitsError {
    /// It is something else.
    #[error(
        "{path} has no costs of collectives, for its first line is not `{TITLE}`; keep a fit again, or name another file with BOWLINE_MODEL, or off"
    )]
    Foreign {
        /// The file.
        path: String,
    },
    /// It cannot be read.
    #[error("cannot read {path}: {source}; name another file with BOWLINE_MODEL, or off")]
    Access {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
}

bowline_base::debug_by_display!(FitsError);

/// Where costs are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CostSource {
    /// The setting says them.
    Given,
    /// They were fitted on this machine, of at least one of the transports.
    Fitted,
    /// Nobody has measured them.
    Assumed,
}

impl CostSource {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Given => "given",
            Self::Fitted => "fitted",
            Self::Assumed => "assumed",
        }
    }
}

/// Where the fits are kept; `None` where the user wants none or there is no place.
pub fn file(config: &Config) -> Option<PathBuf> {
    crate::costs::place(&config.get(MODEL), FILE)
}

/// Where beside the fits that is which jobs read.
pub fn costs_file(fits: &Path) -> PathBuf {
    fits.with_extension("costs")
}

fn read(path: &Path) -> Result<Option<String>, FitsError> {
    let name = || path.display().to_string();
    match std::fs::read(path) {
        Ok(text) if text.split(|byte| *byte == b'\n').next() == Some(TITLE.as_bytes()) => {
            Ok(Some(String::from_utf8_lossy(&text).into_owned()))
        }
        Ok(_) => Err(FitsError::Foreign { path: name() }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(FitsError::Access { path: name(), source }),
    }
}

/// The costs that are kept, if there are any.
fn kept(config: &Config) -> Result<Option<String>, FitsError> {
    let Some(path) = file(config) else { return Ok(None) };
    let is_named = !matches!(config.get(MODEL).trim(), "" | "auto");
    match read(&costs_file(&path)) {
        Err(error) if !is_named => {
            tracing::warn!("{error}");
            Ok(None)
        }
        read => read,
    }
}

/// What messages cost in a job, as `BOWLINE_COLL_COSTS` has it, and where that is from: parameters that were fitted are
/// named in it, and the others are assumed. `None` where no transport carries messages.
///
/// # Errors
/// When the user has named a file of fits that cannot be used.
pub fn coll_costs(
    spread: bool,
    config: &Config,
) -> Result<Option<(String, CostSource)>, FitsError> {
    let given: String = config.get(bowline_mpi::COLL_COSTS);
    if given != "auto" {
        return Ok(Some((given, CostSource::Given)));
    }
    let Some(carriers) = carriers(spread, config) else { return Ok(None) };
    let kept = kept(config)?;
    Ok(Some(known(carriers, kept.as_deref(), &crate::costs::site())))
}

/// What is known of the transports within nodes and between them: fitted at this site, or else assumed.
fn known(carriers: [&'static str; 2], kept: Option<&str>, site: &str) -> (String, CostSource) {
    let mut source = CostSource::Assumed;
    let [near, far] = carriers.map(|transport| {
        let fitted = kept.and_then(|text| find(text, site, transport));
        fitted.inspect(|_| source = CostSource::Fitted).unwrap_or(Costs::word(transport))
    });
    let costs = if near == far { near.to_owned() } else { format!("{near}/{far}") };
    (costs, source)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bowline_model::coll::price::JobCosts;

    fn config(pairs: &[(&str, &str)]) -> Config {
        Config::from_pairs(pairs.iter().copied(), crate::stack::SETTINGS).unwrap()
    }

    #[test]
    fn the_file_is_where_the_setting_says() {
        let place = |text: &str| file(&config(&[("BOWLINE_MODEL", text)]));
        assert_eq!(place("off"), None);
        assert_eq!(place("some/file"), Some(PathBuf::from("some/file")));
        // Without a home there is no place.
        assert!(place("auto").is_none_or(|path| path.ends_with(FILE)));
    }

    #[test]
    fn costs_are_given_or_fitted_or_assumed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("model.json");
        let name = path.to_str().unwrap();
        let known = |spread, more: &[(&str, &str)]| {
            coll_costs(spread, &config(&[&[("BOWLINE_MODEL", name)], more].concat()))
        };
        let parsed = |text: &str| text.parse::<JobCosts>().unwrap();
        // There is no file yet.
        let (costs, source) = known(true, &[]).unwrap().unwrap();
        assert_eq!((parsed(&costs), source), (JobCosts::ASSUMED, CostSource::Assumed));
        let site = crate::costs::site();
        let fitted = "tcp,byte=3,at8=900/100,at64=950/110".to_owned();
        let devices = "rdma,byte=2,at8=7/41".to_owned();
        let entries = [
            (&*site, "tcp", fitted.clone()),
            (&*site, "verbs", devices.clone()),
            ("elsewhere", "shm", fitted.clone()),
        ];
        std::fs::write(costs_file(&path), text(entries)).unwrap();
        let (costs, source) = known(true, &[]).unwrap().unwrap();
        assert_eq!((costs, source), (format!("shm/{fitted}"), CostSource::Fitted));
        // Of shared memory nothing was fitted here.
        let (costs, source) = known(false, &[]).unwrap().unwrap();
        assert_eq!((parsed(&costs).near, source), (Costs::SHARED_MEMORY, CostSource::Assumed));
        let given = known(true, &[("BOWLINE_COLL_COSTS", "tcp,byte=1")]).unwrap();
        assert_eq!(given, Some(("tcp,byte=1".to_owned(), CostSource::Given)));
        // By the transport that carries messages, which is the first, or a path of rails.
        for (transports, rails, wanted) in [
            ("self,shm,tcp,ofi", "", format!("shm/{fitted}")),
            ("self,shm,ofi", "", "shm/rdma".to_owned()),
            ("self,verbs,shm", "", devices.clone()),
            ("self,shm,tcp", "verbs,tcp", format!("shm/{devices}")),
            ("self,tcp", "tcp:eth0,verbs", fitted.clone()),
        ] {
            let setting = [("BOWLINE_TRANSPORTS", transports), ("BOWLINE_RAILS", rails)];
            let (costs, _) = known(true, &setting).unwrap().unwrap();
            assert_eq!(costs, wanted, "{transports}, {rails}");
            costs.parse::<JobCosts>().unwrap();
        }
        assert_eq!(known(true, &[("BOWLINE_TRANSPORTS", "self,shm")]).unwrap(), None);
        // A later version is another file, too.
        std::fs::write(costs_file(&path), format!("{TITLE}0\n")).unwrap();
        let error = known(true, &[]).unwrap_err().to_string();
        assert!(error.contains("model.costs") && error.contains("BOWLINE_MODEL"), "{error}");
    }
}
