//! What a comparison can be asked for. Doubles as the command line of `cargo xtask bench peers`.

use std::path::PathBuf;

use rustix::thread::CpuSet;

use crate::BenchError;

/// Options of one comparison.
#[derive(Debug, Clone, clap::Args)]
pub struct PeersOptions {
    /// A run under a minute: fewer rounds, shorter figures, short time limits.
    #[arg(long)]
    pub quick: bool,

    /// How often every configuration is measured; the configurations take turns. Default 7; 2 with
    /// --quick, where collectives, start-up and deaths are measured once. Of `selection` 3, and 1 with --quick.
    #[arg(long)]
    pub rounds: Option<usize>,

    /// Only metrics whose name begins so, for example mpi_lat, barrier-8, tag, death; or, behind two dots, ends
    /// so, for example ..-16-delayed. Comma-separated.
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,

    /// Only these sources, for example bowline,ucx,openmpi (a name or the beginning of one).
    #[arg(long, value_delimiter = ',')]
    pub peers: Vec<String>,

    /// The two CPUs everything is pinned to.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1])]
    pub cpus: Vec<usize>,

    /// Bowline's command.
    #[arg(long, default_value = "target/release/bowline")]
    pub bowline: PathBuf,

    /// Where Bowline is installed for C programs (`cargo xtask install`): the benchmark program of the MPI peers
    /// is compiled and started by its mpicc and mpiexec too, as one more source.
    #[arg(long)]
    pub prefix: Option<PathBuf>,

    /// Where the peers are installed and the benchmark programs compiled. Default: bowline/peers
    /// in the user's cache directory.
    #[arg(long)]
    pub cache: Option<PathBuf>,

    /// Do not install anything; peers that are not there are reported as missing.
    #[arg(long)]
    pub no_install: bool,

    /// No progress on the standard error stream.
    #[arg(long)]
    pub quiet: bool,
}

impl Default for PeersOptions {
    fn default() -> Self {
        Self {
            quick: false,
            rounds: None,
            only: Vec::new(),
            peers: Vec::new(),
            cpus: vec![0, 1],
            bowline: PathBuf::from("target/release/bowline"),
            prefix: None,
            cache: None,
            no_install: false,
            quiet: false,
        }
    }
}

impl PeersOptions {
    /// The directory for installed peers and compiled programs, absolute.
    pub(crate) fn cache_dir(&self) -> Result<PathBuf, BenchError> {
        let dir = match &self.cache {
            Some(dir) => dir.clone(),
            None => default_cache(
                std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from),
                std::env::var_os("HOME").map(PathBuf::from),
            )?,
        };
        std::path::absolute(&dir).map_err(crate::error::file("resolve", dir))
    }

    /// The two CPUs, checked against those this process may use.
    pub(crate) fn checked_cpus(&self) -> Result<[usize; 2], BenchError> {
        let &[first, second] = self.cpus.as_slice() else {
            return Err(cpus_error(format!("{} CPUs given, two wanted", self.cpus.len())));
        };
        if first == second {
            return Err(cpus_error(format!("CPU {first} given twice, two different ones wanted")));
        }
        let allowed = rustix::thread::sched_getaffinity(None)
            .map_err(|error| cpus_error(format!("cannot read the allowed CPUs: {error}")))?;
        for cpu in [first, second] {
            if cpu >= CpuSet::MAX_CPU || !allowed.is_set(cpu) {
                return Err(cpus_error(format!(
                    "CPU {cpu} is not available to this process; taskset -p $$ shows which are"
                )));
            }
        }
        Ok([first, second])
    }

    /// Bowline's command as an absolute path.
    pub(crate) fn bowline_path(&self) -> PathBuf {
        std::path::absolute(&self.bowline).unwrap_or_else(|_| self.bowline.clone())
    }

    /// Where Bowline is installed for C programs, as an absolute path.
    pub(crate) fn prefix_path(&self) -> Option<PathBuf> {
        let prefix = self.prefix.as_deref()?;
        Some(std::path::absolute(prefix).unwrap_or_else(|_| prefix.to_path_buf()))
    }
}

fn cpus_error(reason: String) -> BenchError {
    BenchError::Option { option: "cpus", reason }
}

fn default_cache(xdg: Option<PathBuf>, home: Option<PathBuf>) -> Result<PathBuf, BenchError> {
    let base = xdg
        .filter(|dir| dir.is_absolute())
        .or_else(|| home.map(|home| home.join(".cache")))
        .ok_or_else(|| BenchError::Option {
            option: "cache",
            reason: "neither HOME nor XDG_CACHE_HOME is set; give a directory".to_owned(),
        })?;
    Ok(base.join("bowline").join("peers"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_prefers_xdg_and_ignores_a_relative_one() {
        let home = Some(PathBuf::from("/home/a"));
        assert_eq!(
            default_cache(Some("/x".into()), home.clone()).unwrap(),
            PathBuf::from("/x/bowline/peers")
        );
        assert_eq!(
            default_cache(Some("x".into()), home).unwrap(),
            PathBuf::from("/home/a/.cache/bowline/peers")
        );
        assert!(default_cache(None, None).is_err());
    }

    #[test]
    fn cpus_must_be_two_different_ones() {
        for cpus in [vec![], vec![0], vec![0, 0], vec![0, 1, 2], vec![0, 100_000]] {
            let options = PeersOptions { cpus, ..Default::default() };
            assert!(options.checked_cpus().is_err());
        }
    }
}
