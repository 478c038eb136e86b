//! Who hides what of a message by each rendezvous, without any help (figures 3.2 to 3.4 of the thesis): by a write that the
//! receiver asks for, by a read, and by a write to a receive that was announced. On a lane that moves data by itself.
//!
//! What of a message alone does not lengthen a computation is hidden. The thesis has no figures of it, but says who hides
//! all and who nothing; `goal` compares with that. What was to be announced is counted: messages that were not are no evidence
//! of the last rendezvous.

use anyhow::{Result, ensure};

use crate::overlap::{Plan, Total, messages, totals};
use crate::ranks::{Lane, Scope, run_counted};
use crate::table::{Cell, Table};

/// A message that the card carries for half of the computation, and an emulated device for a part of it.
const BYTES: usize = 128 << 10;

/// The setting of the rendezvous whose receivers announce.
const ANNOUNCING: &str = "rtr";

/// Share of announced messages below which a row is of others. The first ones of a job are not: their sender does not know yet
/// that its peer announces.
const ANNOUNCED: f64 = 0.9;

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
        setting: ANNOUNCING,
        // It starts when the send is posted, or in the sender's wait.
        published: |plan| [!plan.sender_first || !plan.sender_computes, !plan.sender_first],
    },
];

/// What was measured in one mode.
#[derive(Clone, Copy, Debug)]
struct Measured {
    /// Of the receiver and of the sender.
    totals: [Total; 2],
    /// The share of the messages that were written to announced receives, the least of the rounds.
    announced: f64,
}

fn measure(lane: Lane, scheme: &str, mode: &str, plan: Plan, quick: bool) -> Result<Measured> {
    let (rounds, count) = if quick { (2, 20) } else { (5, 60) };
    let mut found = [Vec::new(), Vec::new()];
    let mut announced = 1.0;
    for _ in 0..rounds {
        let settings = [("BOWLINE_RNDV_SCHEME", scheme)];
        let both = run_counted(2, (lane, None), mode, &settings, |world| {
            totals(world, plan, lane.work(), &[BYTES], count)
        })?;
        for (found, (times, _)) in found.iter_mut().zip(&both) {
            found.push(times[0]);
        }
        let written = both[1].1.sent_rtr;
        ensure!(
            scheme == ANNOUNCING || written == 0,
            "{written} messages were written to announced receives with BOWLINE_RNDV_SCHEME={scheme}"
        );
        announced = f64::min(announced, written as f64 / messages(count) as f64);
    }
    Ok(Measured { totals: found.map(Total::median), announced })
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
            "announced",
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
    table.note(
        "announced: of the messages of the modes none and pef, and of those alone, the share that was written to an announced receive, the least \
         of the rounds; a sender that is first has nothing to find, and writes when the receiver asks for it, as with write",
    );
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
    let measure = |mode, plan| measure(lane, scheme.setting, mode, plan, quick);
    let alone = measure("none", idle)?;
    let plans = [
        ("both", Plan { receiver_computes: true, sender_computes: true, ..idle }),
        ("receiver", Plan { receiver_computes: true, ..idle }),
        ("sender", Plan { sender_computes: true, ..idle }),
    ];
    for (computes, plan) in plans {
        let (none, pef) = (measure("none", plan)?, measure("pef", plan)?);
        let announced = [none, pef].map(|mode| f64::min(mode.announced, alone.announced));
        let of_others = scheme.setting == ANNOUNCING && !sender_first && announced[0] < ANNOUNCED;
        let published = (scheme.published)(&plan);
        let sides = [plan.receiver_computes, plan.sender_computes];
        for side in (0..2).filter(|side| sides[*side]) {
            let alone = alone.totals[side];
            let hidden = |mode: Measured| mode.totals[side].hidden(alone) * 100.0;
            let percent = |mode| Cell::from(format!("{:.0} %", hidden(mode)));
            let name = ["receiver", "sender"][side];
            let first = if sender_first { "sender" } else { "receiver" };
            table.row(vec![
                lane.name().into(),
                scheme.name.into(),
                first.into(),
                computes.into(),
                name.into(),
                Cell::number(alone.more(), 0, ""),
                percent(none),
                percent(pef),
                announced_cell(scheme, announced),
                if published[side] { "all" } else { "nothing" }.into(),
            ]);
            let (name_of_lane, name_of_scheme) = (lane.name(), scheme.name);
            let what = format!(
                "as published: {name_of_lane}, {name_of_scheme}, {first} first, {computes} computes, {name}"
            );
            let hidden = hidden(none);
            if of_others {
                table.note(format!("not compared, since its messages were not announced: {what}"));
                continue;
            }
            table.goal(what, format!("{hidden:.0} % hidden"), (hidden > 50.0) == published[side]);
        }
    }
    Ok(())
}

/// Shares in percent, rounded down, so that none that is too small looks large enough.
fn announced_cell(scheme: &Scheme, shares: [f64; 2]) -> Cell {
    if scheme.setting != ANNOUNCING {
        return Cell::none();
    }
    let [none, pef] = shares.map(|share| (share * 100.0).floor());
    format!("{none:.0}, {pef:.0} %").into()
}
