//! Who hides what of a message by each rendezvous, without any help (figures 3.2 to 3.4 of the thesis): by a write that the
//! receiver asks for, by a read, and by a write to a receive that was announced. On a lane that moves data by itself.
//!
//! What of a message alone does not lengthen a computation is hidden. The thesis has no figures of it, but says who hides
//! all and who nothing; `goal` compares with that.

use anyhow::Result;

use crate::overlap::{COMPUTED, Plan, totals};
use crate::ranks::{Lane, median, run_with};
use crate::table::{Cell, Table};

/// A message that the card carries for half of the computation.
const BYTES: usize = 128 << 10;

/// A rendezvous, its name among ours, and what was published of it.
struct Scheme {
    name: &'static str,
    setting: &'static str,
    published: fn(&Plan) -> Hides,
}

/// Whether the receiver, and the sender, hide the message; of sides that do not compute nothing is said.
type Hides = [bool; 2];

const SCHEMES: [Scheme; 3] = [
    Scheme {
        name: "write (3.2)",
        setting: "put",
        // The payload starts in the sender's wait.
        published: |plan| [plan.sender_first && !plan.sender_computes, false],
    },
    Scheme {
        name: "read (3.3)",
        setting: "get",
        // It starts when the receive is posted, or in the receiver's wait.
        published: |plan| [plan.sender_first, plan.sender_first || !plan.receiver_computes],
    },
    Scheme {
        name: "receiver-initiated (3.4)",
        setting: "rtr",
        // It starts when the send is posted, or in the sender's wait.
        published: |plan| [!plan.sender_first || !plan.sender_computes, !plan.sender_first],
    },
];

fn medians(scheme: &str, mode: &str, plan: Plan, quick: bool) -> Result<[f64; 2]> {
    let (rounds, count) = if quick { (2, 20) } else { (5, 60) };
    let mut found = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        let settings = [("BOWLINE_RNDV_SCHEME", scheme)];
        let lane = (Lane::Writer, None);
        let both =
            run_with(2, lane, mode, &settings, |world| totals(world, plan, &[BYTES], count))?;
        for (found, times) in found.iter_mut().zip(&both) {
            found.push(times[0]);
        }
    }
    Ok(found.map(median))
}

pub(crate) fn tables(quick: bool) -> Result<Vec<Table>> {
    let mut table = Table::new(
        "schemes",
        format!(
            "how much of a message of {BYTES} bytes is hidden by 1000 us of computation, by the rendezvous that is \
             asked for; the carrier"
        ),
        &["rendezvous", "first", "computes", "side", "alone, us", "none", "pef", "published, none"],
    );
    for scheme in &SCHEMES {
        for sender_first in [true, false] {
            let idle = Plan { sender_first, receiver_computes: false, sender_computes: false };
            let alone = medians(scheme.setting, "none", idle, quick)?;
            let plans = [
                ("both", Plan { receiver_computes: true, sender_computes: true, ..idle }),
                ("receiver", Plan { receiver_computes: true, ..idle }),
                ("sender", Plan { sender_computes: true, ..idle }),
            ];
            for (computes, plan) in plans {
                let none = medians(scheme.setting, "none", plan, quick)?;
                let pef = medians(scheme.setting, "pef", plan, quick)?;
                let published = (scheme.published)(&plan);
                let sides = [plan.receiver_computes, plan.sender_computes];
                for side in (0..2).filter(|side| sides[*side]) {
                    let computed = COMPUTED.as_secs_f64() * 1e6;
                    let hidden = |total: f64| 1.0 - (total - computed) / alone[side];
                    let percent = |total| Cell::from(format!("{:.0} %", hidden(total) * 100.0));
                    let name = ["receiver", "sender"][side];
                    let first = if sender_first { "sender" } else { "receiver" };
                    table.row(vec![
                        scheme.name.into(),
                        first.into(),
                        computes.into(),
                        name.into(),
                        Cell::number(alone[side], 0, ""),
                        percent(none[side]),
                        percent(pef[side]),
                        if published[side] { "all" } else { "nothing" }.into(),
                    ]);
                    let what = format!(
                        "as published: {}, {first} first, {computes} computes, {name}",
                        scheme.name
                    );
                    let hidden = hidden(none[side]);
                    let said = format!("{:.0} % hidden", hidden * 100.0);
                    table.goal(what, said, (hidden > 0.5) == published[side]);
                }
            }
        }
    }
    table.note("published: in words and time lines; without an asynchronous agent");
    Ok(vec![table])
}
