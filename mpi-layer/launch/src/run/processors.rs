//! Which processor each rank is bound to, if ranks are bound.
//!
//! Hosts by name may be one machine: network namespaces, containers, or just two names. Each agent
//! sees the same processors there and would bind its first rank to the first of them. So an agent
//! reports what kernel it runs on and which processors it may use, and the launcher, which gets that
//! that of all, gives out the processors of each machine once for all its hosts.
//!
//! 1. Agents are on one machine when their kernels were booted together: the kernel draws a random
//!    name (`boot_id`, proc(5)) when it starts, which namespaces and containers do not change.
//! 2. A rank gets the processor, of those that its host may use, that the fewest ranks have so far;
//!    among equals the first. With enough processors all ranks get different ones, in order; with
//!    fewer they go round.
//! 3. Hosts with fewer processors choose before those with more, so that what only one of them may
//!    use is not all that is left to it.
//! 4. Without a wish of the user, ranks are bound on a machine where each got a processor of its
//!    own, and not at all on others.

use rustix::thread::CpuSet;

use super::{Bind, LaunchError, system};
use crate::protocol::wire::{BOOT_MAX, SET_MAX};

/// What is known of the machine that a host is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Machine {
    /// The boot's name; empty where the kernel does not show it, which equals no other.
    pub(crate) boot: Vec<u8>,
    /// The processors that may be used, in order.
    pub(crate) cpus: Vec<u32>,
}

impl Machine {
    /// The one that this process runs on.
    ///
    /// # Errors
    /// When the kernel does not say which processors may be used.
    pub(crate) fn own() -> Result<Self, LaunchError> {
        let allowed = rustix::thread::sched_getaffinity(None)
            .map_err(system("ask which processors may be used"))?;
        let cpus = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
        let mut boot = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        boot.truncate(boot.trim_ascii_end().len().min(BOOT_MAX));
        Ok(Self { boot, cpus: cpus.map(|cpu| cpu as u32).collect() })
    }

    fn is_same(&self, other: &Self) -> bool {
        !self.boot.is_empty() && self.boot == other.boot
    }
}

/// A set of processors as it travels.
pub(crate) fn to_bits(cpus: &[u32]) -> Vec<u8> {
    let mut bits = Vec::new();
    for cpu in cpus.iter().map(|cpu| *cpu as usize).filter(|cpu| *cpu < SET_MAX * 8) {
        bits.resize(bits.len().max(cpu / 8 + 1), 0);
        bits[cpu / 8] |= 1 << (cpu % 8);
    }
    bits
}

/// The set that has travelled; bits that name no processor of Linux are left out.
pub(crate) fn from_bits(bits: &[u8]) -> Vec<u32> {
    let bits = &bits[..bits.len().min(SET_MAX)];
    let is_set = |cpu: &u32| bits[*cpu as usize / 8] & 1 << (cpu % 8) != 0;
    (0..bits.len() as u32 * 8).filter(is_set).collect()
}

/// The processor of each rank of a host; empty where they are not bound. `hosts` has what is known
/// of each, and its number of ranks.
pub(crate) fn assign(bind: Option<Bind>, hosts: &[(Machine, u32)]) -> Vec<Vec<u32>> {
    let mut given = vec![Vec::new(); hosts.len()];
    if bind == Some(Bind::None) {
        return given;
    }
    let mut done = vec![false; hosts.len()];
    for first in 0..hosts.len() {
        if done[first] {
            continue;
        }
        let is_here = |host: &usize| *host == first || hosts[*host].0.is_same(&hosts[first].0);
        let here: Vec<usize> = (first..hosts.len()).filter(is_here).collect();
        let shared = assign_machine(&here, hosts, &mut given);
        for host in here {
            done[host] = true;
            if shared && bind.is_none() {
                given[host].clear();
            }
        }
    }
    given
}

/// Gives out the processors of one machine; whether two ranks have got the same.
fn assign_machine(here: &[usize], hosts: &[(Machine, u32)], given: &mut [Vec<u32>]) -> bool {
    let most = here.iter().flat_map(|host| &hosts[*host].0.cpus).max();
    let mut ranks_of = vec![0_u32; most.map_or(0, |cpu| *cpu as usize + 1)];
    let mut order = here.to_vec();
    order.sort_by_key(|host| hosts[*host].0.cpus.len());
    for host in order {
        let (machine, ranks) = &hosts[host];
        for _ in 0..*ranks {
            let Some(cpu) = machine.cpus.iter().min_by_key(|cpu| ranks_of[**cpu as usize]) else {
                break;
            };
            ranks_of[*cpu as usize] += 1;
            given[host].push(*cpu);
        }
    }
    ranks_of.iter().any(|ranks| *ranks > 1)
}

/// The processors of the ranks of a job without agents.
///
/// # Errors
/// When the kernel does not say which processors may be used.
pub(crate) fn of_this_machine(bind: Option<Bind>, ranks: u32) -> Result<Vec<u32>, LaunchError> {
    if bind == Some(Bind::None) {
        return Ok(Vec::new());
    }
    let given = assign(bind, &[(Machine::own()?, ranks)]);
    Ok(given.into_iter().next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(boot: &str, cpus: impl IntoIterator<Item = u32>) -> Machine {
        Machine { boot: boot.as_bytes().to_vec(), cpus: cpus.into_iter().collect() }
    }

    #[test]
    fn hosts_of_one_machine_share_its_processors() {
        let four = || machine("x", 0..4);
        let hosts = [(four(), 2), (machine("y", 0..4), 2), (four(), 2)];
        for bind in [None, Some(Bind::Core)] {
            assert_eq!(assign(bind, &hosts), [vec![0, 1], vec![0, 1], vec![2, 3]]);
        }
        assert_eq!(assign(Some(Bind::None), &hosts), vec![Vec::<u32>::new(); 3]);
        // One rank more than processors on the machine that is two hosts.
        let hosts = [(four(), 2), (machine("y", 0..4), 2), (four(), 3)];
        assert_eq!(assign(None, &hosts), [vec![], vec![0, 1], vec![]]);
        let bound = assign(Some(Bind::Core), &hosts);
        assert_eq!(bound, [vec![0, 1], vec![0, 1], vec![2, 3, 0]]);
    }

    #[test]
    fn nobody_is_left_with_what_another_has_taken() {
        // The first may use what the second may not.
        let hosts = [(machine("x", [0, 1, 5]), 2), (machine("x", [0, 1]), 1)];
        assert_eq!(assign(None, &hosts), [vec![1, 5], vec![0]]);
    }

    #[test]
    fn machines_that_do_not_say_who_they_are_stand_alone() {
        let hosts = [(machine("", 0..2), 2), (machine("", 0..2), 2)];
        assert_eq!(assign(None, &hosts), [[0, 1], [0, 1]]);
        // Nothing known at all: nothing to bind to.
        let hosts = [(Machine::default(), 2)];
        assert_eq!(assign(Some(Bind::Core), &hosts), [Vec::<u32>::new()]);
    }

    #[test]
    fn more_ranks_than_processors_go_round_them() {
        let hosts = [(machine("x", [3, 7]), 5)];
        assert_eq!(assign(Some(Bind::Core), &hosts), [[3, 7, 3, 7, 3]]);
        assert_eq!(assign(None, &hosts), [Vec::<u32>::new()]);
    }

    #[test]
    fn sets_travel_as_bits() {
        for set in [vec![], vec![0], vec![7, 8, 63, 64], vec![CpuSet::MAX_CPU as u32 - 1]] {
            assert_eq!(from_bits(&to_bits(&set)), set);
        }
        assert_eq!(from_bits(&[0; 500]), Vec::<u32>::new());
        assert_eq!(from_bits(&[255; 500]).len(), CpuSet::MAX_CPU);
    }

    #[test]
    fn this_machine_has_processors_and_a_boot() {
        let own = Machine::own().unwrap();
        assert!(!own.cpus.is_empty());
        assert!(own.is_same(&own), "{own:?}");
        assert_eq!(of_this_machine(Some(Bind::Core), 1).unwrap(), own.cpus[..1]);
    }
}
