//! How much memory the machine and the control groups of this process still have.
//!
//! A memfd has no size limit of its own, and beyond what there is the kernel kills processes
//! instead of refusing the reservation: the limits must be read before memory is reserved. What
//! cannot be read (no `/proc`, a group mounted elsewhere) does not limit. The answer is a
//! snapshot, not a reservation: two jobs that start at the same moment may both see the same available.

use std::fs;
use std::path::Path;

use super::RegionError;

/// What there is, as far as it could be read.
#[derive(Debug, Default)]
pub(super) struct Available {
    /// Bytes that the machine can still give.
    pub(super) machine: Option<u64>,
    /// The tightest control group.
    pub(super) group: Option<Limit>,
}

/// A limit of a control group and what it leaves.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Limit {
    /// Bytes that may still be taken.
    pub(super) available: u64,
    /// Directory of the group.
    pub(super) group: String,
}

impl Available {
    /// The available now.
    pub(super) fn now() -> Self {
        let meminfo = fs::read_to_string("/proc/meminfo").ok();
        Self { machine: meminfo.and_then(|text| machine_available(&text)), group: tightest() }
    }

    /// Refuses what does not fit.
    pub(super) fn admit(&self, wanted: u64) -> Result<(), RegionError> {
        if let Some(available) = self.machine
            && available < wanted
        {
            return Err(RegionError::MachineFull { wanted, available });
        }
        match &self.group {
            Some(limit) if limit.available < wanted => {
                let group = limit.group.clone();
                Err(RegionError::CgroupLimit { wanted, available: limit.available, group })
            }
            _ => Ok(()),
        }
    }
}

/// Memory that is free or can be freed, and swap. The kernel's figure is an estimate, and a
/// machine without a free page does not work: a twentieth stays.
fn machine_available(meminfo: &str) -> Option<u64> {
    let bytes = |key: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        kib.checked_mul(1024)
    };
    let available = bytes("MemAvailable")?;
    let available = available.checked_add(bytes("SwapFree").unwrap_or(0))?;
    Some(available - available / 20)
}

/// Names of one version's files.
struct Hierarchy {
    mounts: &'static [&'static str],
    limit: &'static str,
    usage: &'static str,
    /// Keys of `memory.stat` whose pages the kernel gives back before it refuses.
    reclaimable: &'static [&'static str],
}

const V1: Hierarchy = Hierarchy {
    mounts: &["/sys/fs/cgroup/memory"],
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    reclaimable: &["total_inactive_file", "total_active_file"],
};

const V2: Hierarchy = Hierarchy {
    mounts: &["/sys/fs/cgroup", "/sys/fs/cgroup/unified"],
    limit: "memory.max",
    usage: "memory.current",
    reclaimable: &["inactive_file", "active_file"],
};

/// The tightest limit among the groups of this process and those above them.
fn tightest() -> Option<Limit> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    groups
        .lines()
        .filter_map(memory_group)
        .flat_map(|(hierarchy, path)| {
            hierarchy.mounts.iter().filter_map(move |mount| {
                above(path)
                    .filter_map(|p| read(hierarchy, Path::new(mount), p))
                    .min_by_key(available)
            })
        })
        .min_by_key(available)
}

fn available(limit: &Limit) -> u64 {
    limit.available
}

/// The hierarchy and the path of a line of `/proc/self/cgroup` that rules memory:
/// `number:controllers:path`, with no controllers for version 2.
fn memory_group(line: &str) -> Option<(&'static Hierarchy, &str)> {
    let (_, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    if controllers.is_empty() {
        Some((&V2, path))
    } else if controllers.split(',').any(|c| c == "memory") {
        Some((&V1, path))
    } else {
        None
    }
}

/// `path` and every path above it, the root last.
fn above(path: &str) -> impl Iterator<Item = &str> {
    let mut next = Some(path.trim_end_matches('/'));
    std::iter::from_fn(move || {
        let here = next?;
        next = here.rfind('/').map(|cut| &here[..cut]);
        Some(here)
    })
}

fn read(hierarchy: &Hierarchy, mount: &Path, path: &str) -> Option<Limit> {
    let group = mount.join(path.trim_start_matches('/'));
    let number = |file: &str| fs::read_to_string(group.join(file)).ok()?.trim().parse().ok();
    let limit = number(hierarchy.limit)?;
    let usage = number(hierarchy.usage)?;
    let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let available = available_of(limit, usage, reclaimable(hierarchy, &stat));
    Some(Limit { available, group: group.display().to_string() })
}

fn available_of(limit: u64, usage: u64, reclaimable: u64) -> u64 {
    limit.saturating_sub(usage.saturating_sub(reclaimable))
}

fn reclaimable(hierarchy: &Hierarchy, stat: &str) -> u64 {
    stat.lines()
        .filter_map(|line| line.split_once(' '))
        .filter(|(key, _)| hierarchy.reclaimable.contains(key))
        .filter_map(|(_, value)| value.trim().parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_that_rule_memory_are_found() {
        let version = |line| memory_group(line).map(|(h, path)| (h.limit, path));
        assert_eq!(version("0::/user.slice"), Some(("memory.max", "/user.slice")));
        assert_eq!(version("4:memory:/a/b"), Some(("memory.limit_in_bytes", "/a/b")));
        assert_eq!(version("4:cpu,memory:/a:b"), Some(("memory.limit_in_bytes", "/a:b")));
        assert_eq!(version("3:cpuset:/"), None);
        assert_eq!(version("damaged"), None);
    }

    #[test]
    fn every_group_above_counts() {
        assert_eq!(above("/a/b").collect::<Vec<_>>(), ["/a/b", "/a", ""]);
        assert_eq!(above("/").collect::<Vec<_>>(), [""]);
    }

    #[test]
    fn the_machine_keeps_a_twentieth() {
        let meminfo = "MemTotal:  9 kB\nMemFree: 1 kB\nMemAvailable:   15 kB\nSwapFree: 5 kB\n";
        assert_eq!(machine_available(meminfo), Some(19 * 1024));
        assert_eq!(machine_available("MemAvailable: 20 kB\n"), Some(19 * 1024));
        assert_eq!(machine_available("MemAvailable: many kB\n"), None);
        assert!(Available::now().machine.is_some_and(|available| available > 0));
    }

    #[test]
    fn what_does_not_fit_is_refused_by_whom() {
        let group = Some(Limit { available: 10, group: "g".into() });
        assert!(Available::default().admit(u64::MAX).is_ok());
        let available = Available { machine: Some(20), group };
        assert!(available.admit(10).is_ok());
        let refused = available.admit(11);
        assert!(matches!(refused, Err(RegionError::CgroupLimit { wanted: 11, available: 10, .. })));
        let refused = available.admit(21);
        assert!(matches!(refused, Err(RegionError::MachineFull { wanted: 21, available: 20 })));
    }

    #[test]
    fn page_cache_counts_as_available() {
        let stat = "anon 5\ninactive_file 100\nactive_file 20\nshmem 7\n";
        assert_eq!(reclaimable(&V2, stat), 120);
        assert_eq!(available_of(1000, 400, 120), 720);
        assert_eq!(available_of(1000, 2000, 0), 0);
        assert_eq!(available_of(1000, 50, 120), 1000);
    }

    #[test]
    fn the_tightest_limit_of_a_tree_is_read() {
        let root = std::env::temp_dir().join(format!("bowline-cgroup-{}", std::process::id()));
        let inner = root.join("outer/inner");
        fs::create_dir_all(&inner).unwrap();
        fs::write(root.join("outer/memory.max"), "1000\n").unwrap();
        fs::write(root.join("outer/memory.current"), "900\n").unwrap();
        fs::write(inner.join("memory.max"), "max\n").unwrap();
        fs::write(inner.join("memory.current"), "10\n").unwrap();
        let limits: Vec<_> =
            above("/outer/inner").filter_map(|path| read(&V2, &root, path)).collect();
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(limits.len(), 1, "`max` is no limit: {limits:?}");
        assert_eq!(limits[0].available, 100);
        assert!(limits[0].group.ends_with("outer"));
    }
}
