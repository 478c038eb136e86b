//! E8 by the simulator, with the parameters that were fitted on the machine of the published measurements: what the model
//! leaves of what was measured there.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use bowline_model::fennel::fitted::Fitted;
use bowline_model::fennel::generate::allreduce;
use bowline_model::fennel::machine::Machine;
use bowline_model::fennel::network::Fixed;
use bowline_model::fit::table::Entry;
use bowline_model::schedule::Schedule;

use super::Row;
use super::pictures::{self, Curve};
use super::sizes::{KNEE, falling, knee};

/// E8: sizes to 4 KB, with the parameters of each size (table 4.1), by recursive doubling and by schedules with
/// factors that fall. Of 64 ranks it was published that multiplying is clearly ahead at 4 KB, without an explanation.
pub(super) fn sizes(rows: &mut Vec<Row>, plots: Option<&Path>) -> Result<()> {
    let by_size = Entry::published("", "").by_size().context("published parameters")?;
    for ranks in [8, 64] {
        let mut curves = Vec::new();
        let doubling = Schedule::doubling(ranks);
        for text in falling(ranks).into_iter().chain([doubling.to_string()]) {
            let schedule = Schedule::parse(ranks, &text).context("a factored schedule")?;
            let mut points = Vec::new();
            for bits in 3..=12 {
                let network = Fitted::new(by_size.clone());
                let beyond = network.beyond();
                let mut machine = Machine { network, compute: Fixed(0.0) };
                let ns = machine.run(&allreduce(&schedule, 1 << bits), &mut [])?;
                ensure!(beyond.least().is_none(), "no parameters of 2^{bits} bytes");
                points.push((f64::from(1_u32 << bits), ns / 1e3));
            }
            curves.push(Curve { name: text, points });
        }
        // The last one is recursive doubling.
        let doubling = curves.last().context("recursive doubling")?.points.clone();
        let mut row = |what, ours, unit| {
            rows.push(Row { experiment: "E8", what, published: None, ours, unit });
        };
        for Curve { name, points } in &curves {
            let name = format!("{ranks} ranks, {name}");
            if *points != doubling {
                for (place, bytes) in [(0, 8), (9, 4096)] {
                    let ours = 100.0 * (1.0 - points[place].1 / doubling[place].1);
                    row(
                        format!("{name}, {bytes} B: less time than doubling, simulated"),
                        ours,
                        "%",
                    );
                }
            }
            if let Some(bytes) = knee(points) {
                row(format!("{name}: a time above {KNEE} of that of 8 bytes at"), bytes, "B");
            }
        }
        let title = format!("Allreduce of {ranks} ranks with published parameters, simulated");
        if let Some(directory) = plots {
            let path = directory.join(format!("e8-{ranks}-simulated.png"));
            pictures::draw(&path, &title, ["bytes", "us"], &curves)?;
        }
    }
    Ok(())
}
