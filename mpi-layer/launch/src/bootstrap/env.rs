//! The variables by which a launcher speaks to a rank. Reading only; no meaning is decided here.

use std::collections::HashMap;
use std::str::FromStr;

use super::BootError;

/// Descriptor of the PMI-1 connection.
pub(crate) const PMI_FD: &str = "PMI_FD";
/// Rank in the job.
pub(crate) const PMI_RANK: &str = "PMI_RANK";
/// Ranks in the job.
pub(crate) const PMI_SIZE: &str = "PMI_SIZE";
/// Address of a manager that wants to be called; not supported.
pub(crate) const PMI_PORT: &str = "PMI_PORT";
/// Set by managers that speak PMIx.
pub(crate) const PMIX_NAMESPACE: &str = "PMIX_NAMESPACE";
/// Descriptor of the node's memory.
pub(crate) const JOB_FD: &str = "BOWLINE_JOB_FD";
/// The job's id, hexadecimal.
pub(crate) const JOB_ID: &str = "BOWLINE_JOB_ID";
/// Id of the node's memory in hexadecimal: shows the launcher its own ranks' processes.
pub(crate) const NODE_ID: &str = "BOWLINE_NODE_ID";
/// Rank on the node.
pub(crate) const LOCAL_RANK: &str = "BOWLINE_LOCAL_RANK";
/// Ranks on the node.
pub(crate) const LOCAL_SIZE: &str = "BOWLINE_LOCAL_SIZE";

/// The key-value space of a job of `bowline run`, by which its ranks know their manager.
pub(crate) fn kvsname(job_id: u64) -> String {
    format!("bowline_{job_id:016x}")
}

/// The variables that matter, as they were when the rank started.
#[derive(Debug)]
pub(super) struct Environment(HashMap<&'static str, String>);

impl Environment {
    pub(super) fn of_process() -> Self {
        let names = [
            PMI_FD,
            PMI_RANK,
            PMI_SIZE,
            PMI_PORT,
            PMIX_NAMESPACE,
            JOB_FD,
            JOB_ID,
            LOCAL_RANK,
            LOCAL_SIZE,
        ];
        let value = |name| std::env::var_os(name).map(|v| v.to_string_lossy().into_owned());
        Self(names.into_iter().filter_map(|name| Some((name, value(name)?))).collect())
    }

    #[cfg(test)]
    pub(super) fn of<const N: usize>(values: [(&'static str, &str); N]) -> Self {
        Self(values.into_iter().map(|(name, value)| (name, value.into())).collect())
    }

    pub(super) fn has(&self, name: &'static str) -> bool {
        self.0.get(name).is_some_and(|value| !value.is_empty())
    }

    pub(super) fn number<T: FromStr>(&self, name: &'static str) -> Result<T, BootError> {
        let value = self.0.get(name).map_or("", String::as_str);
        value.parse().map_err(|_| BootError::Environment {
            name,
            value: value.into(),
            expected: "which should be a number",
        })
    }

    pub(super) fn hex(&self, name: &'static str) -> Result<u64, BootError> {
        let value = self.0.get(name).map_or("", String::as_str);
        u64::from_str_radix(value, 16).map_err(|_| BootError::Environment {
            name,
            value: value.into(),
            expected: "which should be a hexadecimal number",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_or_named() {
        let env = Environment::of([(PMI_RANK, "3"), (JOB_ID, "ff"), (PMI_SIZE, "many")]);
        assert_eq!(env.number::<u32>(PMI_RANK).unwrap(), 3);
        assert_eq!(env.hex(JOB_ID).unwrap(), 255);
        let error = env.number::<u32>(PMI_SIZE).unwrap_err().to_string();
        assert!(error.contains("PMI_SIZE") && error.contains("many"), "{error}");
        assert!(env.number::<u32>(PMI_FD).is_err() && env.hex(PMI_SIZE).is_err());
        assert!(env.has(PMI_RANK) && !env.has(PMI_FD));
    }
}
