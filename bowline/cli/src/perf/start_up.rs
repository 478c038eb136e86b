//! How long a job takes that does nothing: from before the first rank is started until all have
//! ended and the launcher has cleaned up, with init and finalize in every rank.

use std::time::Instant;

use anyhow::bail;
use bowline_base::config::Config;
use bowline_launch::run::run;

use super::Args;
use super::figure::Figure;
use super::stats::Samples;
use crate::start;

/// Starts job after job.
pub(crate) fn measure(args: &Args, config: &Config) -> anyhow::Result<Vec<Figure>> {
    let measure_one = |plan: super::Plan| {
        let once = || -> anyhow::Result<()> {
            if args.threads {
                bowline::threads_with(plan.ranks as usize, config, drop)?;
                return Ok(());
            }
            // The launcher has reported the failure.
            match run(&start::again(plan.ranks, config)?)?.code {
                0 => Ok(()),
                code => bail!("a job of {} ranks failed with exit code {code}", plan.ranks),
            }
        };
        for _ in 0..plan.warmup {
            once()?;
        }
        let mut samples = Samples::new();
        for _ in 0..plan.iterations {
            let start = Instant::now();
            once()?;
            samples.record(start.elapsed().as_nanos() as f64);
        }
        Ok(Figure::new(&plan, &samples))
    };
    args.plans().into_iter().map(measure_one).collect()
}
