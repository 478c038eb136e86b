//! Who hides what of a message by each rendezvous, without any help (figures 3.2 to 3.4 of the thesis): by a write that the
//! receiver asks for, by a read, and by a write to a receive that was announced. On a lane that moves data by itself.
//!
//! What of a message alone does not lengthen a computation is hidden. The thesis has no figures of it, but says who hides
//! all and who nothing; `goal` compares with that.

use anyhow::Result;

use crate::overlap::{Plan, Total, totals};
use crate::ranks::{Lane, Scope, run_with};
use crate::table::{Cell, Table};

/// A message that the card carries for half of the computation, and an emulated device for a part of it.
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

fn medians(lane: Lane, scheme: &str, mode: &str, plan: Plan, quick: bool) -> Result<[Total; 2]> {
    let (rounds, count) = if quick { (2, 20) } else { (5, 60) };
    let mut found = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        let settings = [("BOWLINE_RNDV_SCHEME", scheme)];
        let both = run_with(2, (lane, None), mode, &settings, |world| {
            totals(world, plan, lane.work(), &[BYTES], count)
        })?;
        for (found, times) in found.iter_mut().zip(&both) {
            found.push(times[0]);
        }
    }
    Ok(found.map(Total::median))
}

pub(crate) fn tables(scope: &Scope) -> Result<Vec<Table>> {
    // Of the lanes that move data by themselves: devices, and the card, which is to write, too.
    let carrying = |lane: &Lane| match lane {
        Lane::Carrier => Some(Lane::Writer),
        Lane::Verbs | Lane::VerbsElsewhere => Some(*lane),
        _ => None,
    };
    let lanes: Vec<Lane> = scope.lanes.iter().filter_map(carrying).collect();
    let mut table = Table::new(
        "schemes",
        format!(
            "how much of a message of {BYTES} bytes is hidden by 1 ms of computation, 10 ms over verbs, by the rendezvous \
             that is asked for"
        ),
        &[
            "lane",
            "rendezvous",
            "first",
            "computes",
            "side",
            "alone, us",
            "none",
            "pef",
            "published, none",
        ],
    );
    for lane in lanes {
        for scheme in &SCHEMES {
            for sender_first in [true, false] {
                rows(&mut table, lane, scheme, sender_first, scope.quick)?;
            }
        }
    }
    table.note("published: in words and time lines, of one message of no given length; without an asynchronous agent");
    table.note(
        "The workload differs: published are two hosts with a card each; here both ranks are on one host, over the card of \
         the bench or emulated devices, and a share is the median of rounds beside rounds without the message.",
    );
    Ok(vec![table])
}

/// The rows of a rendezvous with one order of the sides.
fn rows(
    table: &mut Table,
    lane: Lane,
    scheme: &Scheme,
    sender_first: bool,
    quick: bool,
) -> Result<()> {
    let idle = Plan { sender_first, receiver_computes: false, sender_computes: false };
    let medians = |mode, plan| medians(lane, scheme.setting, mode, plan, quick);
    let alone = medians("none", idle)?;
    let plans = [
        ("both", Plan { receiver_computes: true, sender_computes: true, ..idle }),
        ("receiver", Plan { receiver_computes: true, ..idle }),
        ("sender", Plan { sender_computes: true, ..idle }),
    ];
    for (computes, plan) in plans {
        let (none, pef) = (medians("none", plan)?, medians("pef", plan)?);
        let published = (scheme.published)(&plan);
        let sides = [plan.receiver_computes, plan.sender_computes];
        for side in (0..2).filter(|side| sides[*side]) {
            let hidden = |totals: [Total; 2]| totals[side].hidden(alone[side]) * 100.0;
            let percent = |totals| Cell::from(format!("{:.0} %", hidden(totals)));
            let name = ["receiver", "sender"][side];
            let first = if sender_first { "sender" } else { "receiver" };
            table.row(vec![
                lane.name().into(),
                scheme.name.into(),
                first.into(),
                computes.into(),
                name.into(),
                Cell::number(alone[side].more(), 0, ""),
                percent(none),
                percent(pef),
                if published[side] { "all" } else { "nothing" }.into(),
            ]);
            let (name_of_lane, name_of_scheme) = (lane.name(), scheme.name);
            let what = format!(
                "as published: {name_of_lane}, {name_of_scheme}, {first} first, {computes} computes, {name}"
            );
            let hidden = hidden(none);
            table.goal(what, format!("{hidden:.0} % hidden"), (hidden > 50.0) == published[side]);
        }
    }
    Ok(())
}
