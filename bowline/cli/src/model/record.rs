//! The file of raw samples, from which a fit can be repeated.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use bowline_model::coll::price::Costs;
use bowline_model::fit::operations::Timed;
use bowline_model::fit::{self, Samples};
use serde::{Deserialize, Serialize};

/// What is written first, by which such files are known.
const FORMAT: &str = "bowline multicasts";

/// Grows when the meaning of the file changes.
const VERSION: u32 = 1;

/// More ranks than any measurement has.
const RANKS: u32 = 1 << 16;

/// Samples, and where they are from. Times are nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Recorded {
    format: String,
    version: u32,
    pub(super) circumstances: Circumstances,
    pub(super) samples: Samples,
    /// Operations on vectors; files from before these were measured have none.
    #[serde(default)]
    pub(super) operations: Vec<Timed>,
}

/// Where samples are from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Circumstances {
    /// Processor, kernel, processors that may be used, version.
    pub(super) site: String,
    pub(super) transport: String,
    pub(super) ranks: u32,
    /// Whether ranks shared processors, so that times have those of receivers in them.
    pub(super) shared: bool,
    /// Whether ranks were threads.
    pub(super) threads: bool,
    /// Whether each put was flushed by itself.
    pub(super) blocking: bool,
    /// What taking the times of a multicast takes itself: it is part of every time from the first to the last.
    pub(super) clock_ns: f64,
    /// The simulated network, if it was one.
    pub(super) network: Option<String>,
}

impl Recorded {
    pub(super) fn new(
        circumstances: Circumstances,
        samples: Samples,
        operations: Vec<Timed>,
    ) -> Self {
        Self { format: FORMAT.to_owned(), version: VERSION, circumstances, samples, operations }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, is another file, or has times that are none.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let name = path.display();
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {name}"))?;
        Self::parse(&bytes).with_context(|| format!("{name} has no samples of multicasts"))
    }

    fn parse(bytes: &[u8]) -> Result<Self> {
        #[derive(Deserialize)]
        struct Head {
            format: Option<String>,
            version: Option<u32>,
        }
        let head: Head = serde_json::from_slice(bytes)?;
        ensure!(
            head.format.as_deref() == Some(FORMAT),
            "its `format` is not `{FORMAT}`, which `bowline model fit --output` writes"
        );
        ensure!(
            head.version == Some(VERSION),
            "it is of version {}, and this program reads version {VERSION}: measure again, or use the program that \
             wrote it",
            head.version.map_or("none".to_owned(), |version| version.to_string())
        );
        let recorded: Self = serde_json::from_slice(bytes)?;
        fit::check(&recorded.samples)?;
        for Timed { cost, times, .. } in &recorded.operations {
            ensure!(Costs::OPERATIONS.contains(&cost.as_str()), "{cost:?} is no operation");
            let wrong = times.iter().find(|time| !time.is_finite() || **time < 0.0);
            ensure!(wrong.is_none(), "a time of {cost:?} is none");
        }
        let clock = recorded.circumstances.clock_ns;
        ensure!(clock.is_finite() && clock >= 0.0, "the clock took {clock} ns");
        ensure!(!recorded.samples.multicasts.is_empty(), "there is no multicast in it");
        for multicast in &recorded.samples.multicasts {
            ensure!(multicast.width > 0, "a multicast to nobody has no message");
            ensure!(multicast.width < RANKS, "a multicast to {} others", multicast.width);
        }
        Ok(recorded)
    }

    /// The samples without what the clock has added to them: all of it until messages are complete, half of it until they
    /// are handed over, and a quarter in each way of a ping-pong, whose two ways take two readings of the clock.
    pub(super) fn without_clock(&self) -> Samples {
        let clock = self.circumstances.clock_ns;
        let mut samples = self.samples.clone();
        let less = |times: &mut Vec<f64>, part: f64| {
            times.iter_mut().for_each(|time| *time = (*time - part).max(0.0));
        };
        for multicast in &mut samples.multicasts {
            less(&mut multicast.complete, clock);
            less(&mut multicast.issued, clock / 2.0);
        }
        for ping_pong in &mut samples.ping_pongs {
            less(&mut ping_pong.one_way, clock / 4.0);
        }
        samples
    }

    /// Writes the file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn write(&self, path: &Path) -> Result<()> {
        super::write(path, &serde_json::to_vec(self)?)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use bowline_model::fit::Multicast;

    /// Samples that the published parameters make, at two sizes; at a third one the model fails.
    pub(crate) fn example() -> Recorded {
        let of = |(size, p, r): (u64, f64, f64)| {
            (1..=8).map(move |width| {
                let time = 20.0 + p + f64::from(width) * r;
                let issued = vec![10.0 + f64::from(width) * r];
                Multicast { size, width, complete: vec![time, time + 50.0, time + 90.0], issued }
            })
        };
        let sizes = [(8, 880.0, 380.0), (512, 960.0, 460.0), (131_072, -120.0, 30_100.0)];
        let multicasts = sizes.into_iter().flat_map(of).collect();
        let circumstances = Circumstances {
            site: "a Cray XC30".to_owned(),
            transport: "aries".to_owned(),
            ranks: 9,
            shared: false,
            threads: false,
            blocking: false,
            clock_ns: 20.0,
            network: None,
        };
        let timed = |bytes, time| Timed { cost: "reduce".to_owned(), bytes, times: vec![time] };
        let operations = vec![timed(1000, 60.0), timed(3000, 160.0)];
        Recorded::new(circumstances, Samples { multicasts, ping_pongs: Vec::new() }, operations)
    }

    #[test]
    fn what_was_written_is_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("samples.json");
        example().write(&path).unwrap();
        assert_eq!(Recorded::read(&path).unwrap(), example());
    }

    #[test]
    fn other_files_are_refused_with_the_reason() {
        let good = serde_json::to_string(&example()).unwrap();
        let refused = |from: &str, to: &str| {
            assert!(good.contains(from), "{from}");
            format!("{:#}", Recorded::parse(good.replacen(from, to, 1).as_bytes()).unwrap_err())
        };
        assert!(refused("bowline multicasts", "a thesis").contains("its `format`"));
        assert!(refused("\"version\":1", "\"version\":9").contains("version 9"));
        assert!(refused("\"width\":1", "\"width\":0").contains("to nobody"));
        assert!(refused("\"width\":1", "\"width\":4000000000").contains("4000000000 others"));
        assert!(refused("1280.0", "-1280.0").contains("is no time"));
        assert!(refused("\"reduce\"", "\"switch\"").contains("no operation"));
        assert!(refused("[160.0]", "[-1.0]").contains("a time of"));
        assert!(refused("\"ranks\"", "\"ranges\"").contains("ranges"));
        assert!(Recorded::parse(b"{}").is_err() && Recorded::parse(b"").is_err());
        let none = serde_json::to_vec(&Recorded { samples: Samples::default(), ..example() });
        let error = Recorded::parse(&none.unwrap()).unwrap_err();
        assert!(error.to_string().contains("no multicast"), "{error}");
    }
}
