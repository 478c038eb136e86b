//! Background load: what else the machine did while a round ran.
//!
//! The share is computed from `/proc/stat`, less what this process and the children it has waited
//! for used themselves. Time that a hypervisor took away (steal) counts as background.

use std::fs;
use std::time::Duration;

use serde::Serialize;

/// The load of one round.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RoundLoad {
    /// The round, from 0.
    pub round: usize,
    /// Busy share of all CPUs just before the round, while the harness slept, percent.
    pub before_percent: f64,
    /// Busy share of all CPUs during the round that was not the harness's own, percent.
    pub during_percent: f64,
    /// The one-minute load average at the end of the round; it includes the peers' own ranks.
    pub load_average: f64,
}

/// Counters of one moment, in clock ticks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Snapshot {
    busy: u64,
    total: u64,
    own: u64,
}

impl Snapshot {
    pub(crate) fn now() -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let (busy, total) = parse_cpu_line(stat.lines().next().unwrap_or_default());
        Self { busy, total, own: parse_own_ticks(&own) }
    }

    /// Share of all CPU time from `self` to `later` that neither was idle nor our own, percent.
    pub(crate) fn background_percent(self, later: Self) -> f64 {
        let total = later.total.saturating_sub(self.total);
        let busy = later.busy.saturating_sub(self.busy);
        let own = later.own.saturating_sub(self.own);
        if total == 0 { 0.0 } else { busy.saturating_sub(own) as f64 * 100.0 / total as f64 }
    }
}

/// Listens for a moment to what the machine does while the harness does nothing, percent.
pub(crate) fn listen() -> f64 {
    let start = Snapshot::now();
    std::thread::sleep(Duration::from_millis(250));
    start.background_percent(Snapshot::now())
}

/// The one-minute load average.
pub(crate) fn load_average() -> f64 {
    fs::read_to_string("/proc/loadavg")
        .ok()
        .and_then(|text| text.split_whitespace().next()?.parse().ok())
        .unwrap_or(0.0)
}

/// Busy and total ticks of the line `cpu user nice system idle iowait irq softirq steal ...`.
fn parse_cpu_line(line: &str) -> (u64, u64) {
    let ticks: Vec<u64> =
        line.split_whitespace().skip(1).take(8).map(|word| word.parse().unwrap_or(0)).collect();
    let total: u64 = ticks.iter().sum();
    let idle: u64 = ticks.iter().skip(3).take(2).sum();
    (total - idle, total)
}

/// utime + stime + cutime + cstime of a `/proc/PID/stat` line: fields 14 to 17, counted after the
/// command name, which stands in parentheses and may itself contain spaces.
fn parse_own_ticks(stat: &str) -> u64 {
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    after_name
        .split_whitespace()
        .skip(11)
        .take(4)
        .map(|word| word.parse::<u64>().unwrap_or(0))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_proc_parse() {
        assert_eq!(parse_cpu_line("cpu  10 1 5 100 20 2 3 4 7 0"), (25, 145));
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194560 1 2 3 4 100 20 3 4 20 0 1 0 5 6";
        assert_eq!(parse_own_ticks(stat), 127);
        assert_eq!(parse_own_ticks(""), 0);
    }

    #[test]
    fn own_time_is_not_background() {
        let start = Snapshot { busy: 100, total: 1000, own: 10 };
        let later = Snapshot { busy: 180, total: 1200, own: 70 };
        assert_eq!(start.background_percent(later), 10.0);
        assert_eq!(start.background_percent(start), 0.0);
    }
}
