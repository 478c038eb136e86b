//! The same multicasts on a simulated network, whose parameters are known: its clock is virtual, so that the fit must
//! find them again on any machine.
//!
//! All ranks live in one thread. A blocking call of one of them moves the time, and puts happen without their targets.

use std::fmt;
use std::str::FromStr;

use anyhow::{Result, ensure};
use bowline::simulate::{self, NetworkOptions, TimesOfSize};
use bowline::ucp::{RequestId, Sent};
use bowline_base::config::Config;
use bowline_model::fit::{PUBLISHED, Samples};

use super::measure::{Measured, PING, Plan, Root, Side, payload};

/// What the network is like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Network {
    /// alpha_p in ns, alpha_r in ns of a message of no bytes, and ps of each byte.
    Line { pipelining: u64, required: u64, byte_ps: u64 },
    /// The parameters by size that were published of a Cray XC30.
    Archer,
}

/// The published simulations' network. (Thesis, section 5.)
impl Default for Network {
    fn default() -> Self {
        Self::Line { pipelining: 500, required: 100, byte_ps: 400 }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line { pipelining, required, byte_ps } => {
                write!(out, "{pipelining},{required},{}", *byte_ps as f64 / 1e3)
            }
            Self::Archer => out.write_str("archer"),
        }
    }
}

impl Network {
    /// For the simulator. A put is acknowledged, so alpha_p is the way there and that of the acknowledgement.
    fn options(self) -> NetworkOptions {
        let (latency_ns, gap_ns, byte_ps, by_size) = match self {
            Self::Line { pipelining, required, byte_ps } => {
                (pipelining / 2, required, byte_ps, Vec::new())
            }
            Self::Archer => {
                let [(_, first, required), ..] = PUBLISHED;
                let acknowledgement = first as u64 / 2;
                let row = |(bytes, pipelining, required): (u64, f64, f64)| TimesOfSize {
                    bytes,
                    latency_ns: pipelining as u64 - acknowledgement,
                    gap_ns: required as u64,
                };
                (acknowledgement, required as u64, 0, PUBLISHED.map(row).into())
            }
        };
        let acknowledged = true;
        NetworkOptions {
            latency_ns,
            gap_ns,
            byte_ps,
            by_size,
            acknowledged,
            ..NetworkOptions::default()
        }
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "archer" {
            return Ok(Self::Archer);
        }
        let wrong = || {
            format!(
                "`{text}` is no network such as 880,380 or 500,100,0.4 (ns, ns and ns) or archer"
            )
        };
        let mut words = text.split(',').map(str::trim);
        let mut whole = || words.next().and_then(|word| word.parse().ok()).ok_or_else(wrong);
        let (pipelining, required): (u64, u64) = (whole()?, whole()?);
        let byte: f64 =
            words.next().map_or(Some(0.0), |word| word.parse().ok()).ok_or_else(wrong)?;
        let sensible = (0.0..=1e6).contains(&byte) && pipelining <= 1 << 40 && required <= 1 << 40;
        if words.next().is_some() || !sensible {
            return Err(wrong());
        }
        if !pipelining.is_multiple_of(2) {
            return Err(format!(
                "alpha_p is a way there and the same back: {pipelining} ns cannot be halved"
            ));
        }
        Ok(Self::Line { pipelining, required, byte_ps: (byte * 1e3).round() as u64 })
    }
}

/// Measures in virtual time.
///
/// # Errors
/// When a worker cannot be made, or a payload is damaged.
pub(super) fn measure(plan: &Plan, network: Network, config: &Config) -> Result<Measured> {
    let network = simulate::Network::new(network.options());
    let workers = simulate::workers(&network, plan.ranks, config)?;
    let addresses: Vec<Vec<u8>> = workers.iter().map(bowline::ucp::Worker::address).collect();
    let sides = (0..).zip(workers).map(|(rank, worker)| {
        let mut side = Side::new(worker, rank, plan)?;
        side.connect(&addresses)?;
        Ok(side)
    });
    let sides: Vec<Side> = sides.collect::<Result<_>>()?;
    let published: Vec<Vec<u8>> = sides.iter().map(Side::published).collect::<Result<_>>()?;
    let clock = || network.now() as f64;
    let root = Root::open(&sides[0], &published, plan, &clock)?;
    let bytes = payload(plan.sizes.iter().copied().max().unwrap_or(0));
    let mut samples = Samples::default();
    let clock_ns = root.clock_ns();
    for &size in &plan.sizes {
        let payload = &bytes[..size];
        sides.iter().try_for_each(|side| side.clear(size))?;
        let mut open = Vec::new();
        let ping_pong = root.ping_pongs(plan, payload, |buffer| {
            let there = pass(&network, &sides, [0, 1], payload, vec![0; size], &mut open)?;
            ensure!(there == payload, "a message of {size} bytes is damaged");
            pass(&network, &sides, [1, 0], payload, buffer, &mut open)
        });
        samples.ping_pongs.push(ping_pong?);
        for (rank, id) in open {
            sides[rank as usize].worker.wait(id).outcome?;
        }
        settle(&network, &sides);
        samples.multicasts.extend(root.multicasts(plan, payload)?);
        settle(&network, &sides);
        sides.iter().skip(1).try_for_each(|side| side.check(payload))?;
    }
    Ok(Measured { samples, clock_ns })
}

/// A message from one rank to another, both of which the network waits for. Its arrival is what counts: a send that is
/// not complete by then is left `open`.
fn pass(
    network: &simulate::Network,
    sides: &[Side],
    [from, to]: [u32; 2],
    payload: &'static [u8],
    buffer: Vec<u8>,
    open: &mut Vec<(u32, RequestId)>,
) -> Result<Vec<u8>> {
    let (sender, receiver) = (&sides[from as usize], &sides[to as usize]);
    let id = receiver.begin_receive(from, PING, buffer)?;
    if let Sent::Pending(id) = sender.begin_send(to, PING, payload)? {
        open.push((from, id));
    }
    loop {
        sender.worker.progress();
        receiver.worker.progress();
        if receiver.worker.is_complete(id) {
            return receiver.received(id);
        }
        ensure!(network.advance(), "nothing is under way, and a message has not arrived");
    }
}

/// Brings all that is under way.
fn settle(network: &simulate::Network, sides: &[Side]) {
    while network.next_event().is_some() {
        network.run_until_quiet();
        for side in sides {
            side.worker.progress();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bowline_model::fit::{Statistic, fit};

    #[test]
    fn networks_are_read_and_shown() {
        let network: Network = "880, 380".parse().unwrap();
        assert_eq!(network, Network::Line { pipelining: 880, required: 380, byte_ps: 0 });
        assert_eq!("500,100,0.4".parse::<Network>().unwrap(), Network::default());
        assert_eq!(Network::default().to_string(), "500,100,0.4");
        assert_eq!(Network::Archer.to_string().parse(), Ok(Network::Archer));
        for wrong in ["", "1", "2,x", "2,1,0.1,4", "2,1,nan", "2,1,-1", "99999999999999,1"] {
            assert!(wrong.parse::<Network>().unwrap_err().contains("is no network"), "{wrong}");
        }
        assert!("881,380".parse::<Network>().unwrap_err().contains("halved"));
    }

    /// The parameters of fits of the sizes 8 and 1000, over a network.
    fn fitted(network: &str, blocking: bool) -> Vec<(f64, f64, f64)> {
        let plan = Plan { sizes: vec![8, 1000, 20_000], ranks: 9, reps: 4, blocking };
        let config = Config::defaults(bowline::stack::SETTINGS);
        let measured = measure(&plan, network.parse().unwrap(), &config).unwrap();
        let fits = fit(&measured.samples, Statistic::Median).unwrap();
        fits.iter().map(|f| (f.line.intercept, f.line.slope, f.line.r_squared)).collect()
    }

    #[test]
    fn the_parameters_of_the_network_are_found_again() {
        for (network, [pipelining, required, byte]) in
            [("500,100,0.4", [500.0, 100.0, 0.4]), ("880,380", [880.0, 380.0, 0.0])]
        {
            for (found, size) in fitted(network, false).iter().zip([8.0, 1000.0, 20_000.0]) {
                assert!((found.0 / pipelining - 1.0).abs() < 0.02, "{network}: {found:?}");
                assert!(
                    (found.1 / (required + size * byte) - 1.0).abs() < 0.04,
                    "{network}: {found:?}"
                );
                assert!(found.2 > 0.999, "{network}: {found:?}");
            }
        }
    }

    /// Parameters that change with the size as no line does.
    #[test]
    fn the_published_parameters_are_found_again_by_size() {
        let sizes = PUBLISHED.map(|(size, ..)| size as usize).into();
        let plan = Plan { sizes, ranks: 9, reps: 2, blocking: false };
        let config = Config::defaults(bowline::stack::SETTINGS);
        let measured = measure(&plan, Network::Archer, &config).unwrap();
        for statistic in [Statistic::Minimum, Statistic::Median] {
            let fits = fit(&measured.samples, statistic).unwrap();
            assert_eq!(fits.len(), PUBLISHED.len());
            for (found, (size, pipelining, required)) in fits.iter().zip(PUBLISHED) {
                let line = found.line;
                assert!((line.intercept / pipelining - 1.0).abs() < 0.02, "{size}: {line:?}");
                assert!((line.slope / required - 1.0).abs() < 0.02, "{size}: {line:?}");
            }
        }
    }

    #[test]
    fn puts_that_wait_for_one_another_do_not_overlap() {
        let found = fitted("500,100", true);
        for (pipelining, required, _) in found {
            assert!(
                pipelining.abs() < 10.0 && (required / 600.0 - 1.0).abs() < 0.02,
                "{pipelining} {required}"
            );
        }
    }
}
