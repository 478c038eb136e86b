//! Where figures come from: Bowline, its peers, and the yardsticks, behind one trait.

use crate::BenchError;
use crate::context::Context;
use crate::metric::{Metric, Sample};
use crate::options::PeersOptions;
use crate::plan::{Comparison, Stage};
use crate::report::Role;
use crate::selection;

mod bowline;
pub(crate) mod mpi;
pub(crate) mod mpi_peers;
mod ucx;
mod yardstick;

pub(crate) use yardstick::two_lines_ns;

/// The results of one start of a source.
pub(crate) type Measured = Vec<(Metric, Result<Sample, BenchError>)>;

/// One configuration of one library.
pub(crate) trait Source {
    /// The name in tables and filters.
    fn id(&self) -> &'static str;

    /// What it is in the comparison.
    fn role(&self) -> Role;

    /// Installs, compiles and finds what `measure` needs; returns the version and the settings
    /// that differ from the defaults, for the report.
    fn prepare(&mut self, context: &Context) -> Result<String, BenchError>;

    /// Whether it can measure `metric` at all; what it cannot is not "missing".
    fn offers(&self, metric: Metric) -> bool;

    /// Measures `metrics`, all of one stage, in as few starts as it can.
    fn measure(&self, context: &Context, stage: Stage, metrics: &[Metric]) -> Measured;
}

/// Gives every one of `metrics` the failure of the start they shared.
fn all_failed(metrics: &[Metric], error: &BenchError) -> Measured {
    let reason = error.to_string();
    metrics.iter().map(|&metric| (metric, Err(BenchError::SharedStart(reason.clone())))).collect()
}

fn boxed(libraries: Vec<mpi::Mpi>) -> impl Iterator<Item = Box<dyn Source>> {
    libraries.into_iter().map(|library| Box::new(library) as Box<dyn Source>)
}

/// All sources, in the order of the table, narrowed by the options' filter.
pub(crate) fn all(
    options: &PeersOptions,
    what: Comparison,
) -> Result<Vec<Box<dyn Source>>, BenchError> {
    let program = options.bowline_path();
    let mut sources: Vec<Box<dyn Source>> = Vec::new();
    if what == Comparison::Selection {
        let by = |means| bowline::Bowline::by(program.clone(), means);
        let all = std::iter::once(selection::OWN).chain(selection::others()).map(by);
        sources.extend(all.map(|source| Box::new(source) as Box<dyn Source>));
    } else {
        sources.push(Box::new(bowline::Bowline::new(program)));
    }
    if let Some(prefix) = options.prefix_path() {
        if !matches!(what, Comparison::Networks | Comparison::Grid) {
            sources.push(Box::new(mpi_peers::bowline_abi(prefix.clone())));
        }
        if what == Comparison::Selection {
            sources.extend(boxed(
                selection::others()
                    .map(|means| mpi_peers::bowline_abi_by(prefix.clone(), means))
                    .collect(),
            ));
        }
        if matches!(what, Comparison::Networks | Comparison::Collectives) {
            sources.push(Box::new(mpi_peers::bowline_abi_tcp(prefix)));
        }
    }
    match what {
        Comparison::Peers => {
            sources.extend(yardstick::all());
            sources.extend(ucx::all(what));
            sources.extend(boxed(mpi_peers::all()));
        }
        Comparison::Networks => {
            sources.extend(ucx::all(what));
            sources.extend(boxed(mpi_peers::networks()));
        }
        Comparison::Grid => sources.extend(ucx::all(what)),
        Comparison::Selection => {
            sources.extend(ucx::all(what));
            sources.extend(boxed(mpi_peers::all()));
        }
        Comparison::Collectives => {
            sources.extend(boxed(mpi_peers::all()));
            sources.extend(boxed(mpi_peers::networks()));
        }
    }
    let known: Vec<&str> = sources.iter().map(|source| source.id()).collect();
    for filter in &options.peers {
        if !known.iter().any(|id| id.starts_with(filter.as_str())) {
            return Err(BenchError::NoMatch {
                option: "peers",
                pattern: filter.clone(),
                known: known.join(", "),
            });
        }
    }
    sources.retain(|source| {
        options.peers.is_empty()
            || options.peers.iter().any(|filter| source.id().starts_with(filter.as_str()))
    });
    Ok(sources)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_choose_sources_and_reject_unknown_ones() {
        let installed = |prefix: Option<&str>, what: Comparison, peers: &[&str]| {
            let peers = peers.iter().map(ToString::to_string).collect();
            let prefix = prefix.map(Into::into);
            all(&PeersOptions { peers, prefix, ..Default::default() }, what)
                .map(|sources| sources.iter().map(|source| source.id()).collect::<Vec<_>>())
        };
        let ids_of = |what, peers: &[&str]| installed(None, what, peers);
        let ids = |peers: &[&str]| ids_of(Comparison::Peers, peers);
        assert_eq!(ids(&["ucx", "impi"]).unwrap(), ["ucx-debian", "ucx-wheel", "impi-wheel"]);
        assert!(matches!(ids(&["ucy"]), Err(BenchError::NoMatch { option: "peers", .. })));
        assert_eq!(
            ids_of(Comparison::Networks, &["bow", "mpich"]).unwrap(),
            ["bowline", "mpich-debian-tcp", "mpich-wheel-ofi", "mpich-wheel-ucx"]
        );
        assert!(ids_of(Comparison::Networks, &["raw"]).is_err());
        assert_eq!(ids_of(Comparison::Grid, &[]).unwrap(), ["bowline", "ucx-debian", "ucx-wheel"]);
        // The C library takes part where MPI does.
        for (what, ours) in [
            (Comparison::Peers, 2),
            (Comparison::Networks, 2),
            (Comparison::Grid, 1),
            (Comparison::Collectives, 3),
            (Comparison::Selection, 12),
        ] {
            assert_eq!(installed(Some("/opt"), what, &["bowline"]).unwrap().len(), ours);
        }
    }
}
