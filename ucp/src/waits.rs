//! What a worker waits for, in words: for a person who has to explain why nothing moves.
//!
//! It reads the engine's tables when it is shown, and costs nothing before.

use std::fmt;

use bowline_base::slab::{Key, Slab};

use crate::engine::Engine;
use crate::matching::{MatchEngine as _, Want};
use crate::request::{Body, Send, SendKind, SendPhase};
use crate::space::Space;
use crate::status::WaitsFor;
use crate::unexpected::Unexpected;
use crate::worker::Worker;

/// What a worker waits for, for [`Waits`](crate::Waits).
pub(crate) struct List<'a>(pub(crate) &'a Worker);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text(self.0))
    }
}

/// Most requests that are named.
const NAMED: usize = 16;

pub(crate) fn text(worker: &Worker) -> String {
    let Some(mut inner) = worker.inner.try_borrow_mut() else {
        return "it is inside of a call".to_owned();
    };
    let called = match worker.called.get() {
        "" => String::new(),
        name => format!(" (the last collective that it called is {name})"),
    };
    let (mut all, collective) = list(&mut inner.engine);
    if all.is_empty() {
        return format!("no request; a condition of its program{called}");
    }
    if all.len() > NAMED {
        let more = all.len() - NAMED;
        all.truncate(NAMED);
        all.push(format!("and {more} more"));
    }
    let called = if collective { &called[..] } else { "" };
    all.join(", ") + called
}

/// What is waited for, and whether messages of collectives are among it.
fn list(engine: &mut Engine) -> (Vec<String>, bool) {
    let mut all = Vec::new();
    let mut collectives = false;
    let mut single = engine.spaces.take_single();
    for (id, space) in engine.spaces.iter_mut() {
        let describe = space.options.describe;
        let before = all.len();
        let note = &mut |want: &Want| {
            all.push(receive(*want, describe));
            false
        };
        space.remove_posted_where(id, &mut single, note, &mut Vec::new());
        if space.options.collective && all.len() > before {
            collectives = true;
            not_received(space, &engine.unexpected, &mut all);
        }
    }
    engine.spaces.put_single(single);
    for (_, request) in engine.requests.iter().filter(|(_, request)| !request.done) {
        match &request.body {
            Body::Send(send) => {
                let rank = engine.peers[send.peer as usize].address.rank;
                all.push(held_send(send, rank));
            }
            Body::Receive(receive) => {
                if let Some(fetch) = &receive.fetch {
                    let rank = engine.peers[fetch.peer as usize].address.rank;
                    all.push(format!(
                        "the rest of a message of rank {rank} of the job ({} of {} bytes are here)",
                        fetch.done, fetch.wanted
                    ));
                }
            }
            Body::Stream(receive) => {
                let rank = engine.peers[receive.peer as usize].address.rank;
                let (has, capacity) = Engine::stream_capacity(receive);
                all.push(format!("bytes of rank {rank}'s stream ({has} of {capacity} are here)"));
            }
            Body::OneSided(one) if one.task.is_none() && one.emulated.is_none() => {
                all.push("a flush, or the close of an endpoint".to_owned());
            }
            Body::OneSided(_) => all.push("a one-sided operation".to_owned()),
            Body::Expecting(expecting) => {
                let rank = engine.peers[expecting.peer() as usize].address.rank;
                all.push(expecting.describe(rank));
            }
            Body::Free => {}
        }
    }
    (all, collectives)
}

/// The messages of collectives that have come and wait for a receive: what others have sent who call something else.
fn not_received(space: &Space, unexpected: &Slab<Unexpected>, all: &mut Vec<String>) {
    let mut here = Vec::new();
    space.engine.unexpected_values(&mut here);
    for message in here.into_iter().filter_map(|key| unexpected.get(Key::from_wire(key))) {
        let (source, tag) = (message.source, message.tag);
        let describe = space.options.describe;
        let what = describe.map_or_else(|| format!("tag {tag:#x}"), |describe| describe(tag));
        let text = format!("while a message of {what} from rank {source} is not received");
        if !all.contains(&text) {
            all.push(text);
        }
    }
}

const NO_SPACE: &str = "waits for space in the transport, or for credit: what the receiver keeps unreceived is \
     bounded there by BOWLINE_EAGER_SHARE and BOWLINE_UNEXPECTED_BUDGET";

/// A send that is not complete: to whom, with what tag, and what keeps it.
fn held_send(send: &Send, rank: u32) -> String {
    let tag = match send.kind {
        SendKind::Tagged(envelope) => format!(" with tag {:#x}", envelope.tag),
        SendKind::Am { id } => format!(" for the handler {id}"),
        SendKind::Stream => " of a stream".to_owned(),
    };
    let why = match &send.phase {
        SendPhase::Queued { .. } => NO_SPACE,
        SendPhase::Moving(sender) => match sender.describe().1 {
            WaitsFor::Resource => NO_SPACE,
            WaitsFor::Transport => "the transport reads it",
            _ => "on its way",
        },
        SendPhase::Offered if send.rendezvous => {
            "the receiver has not received it: it stays here until then, as messages do that are longer \
             than BOWLINE_RNDV_THRESHOLD or for which BOWLINE_EAGER_SHARE and \
             BOWLINE_UNEXPECTED_BUDGET have no space left there"
        }
        SendPhase::Offered => "a synchronous send that the receiver has not matched",
    };
    let bytes = send.buffer.len();
    format!("a send of {bytes} bytes to rank {rank} of the job{tag} ({why})")
}

fn receive(want: Want, describe: Option<fn(u64) -> String>) -> String {
    let what = match (want.tag_mask, describe) {
        (u64::MAX, Some(describe)) => format!("a message of {}", describe(want.tag)),
        (u64::MAX, None) => format!("a message with tag {:#x}", want.tag),
        (mask, _) => format!("a message with tag {:#x} under mask {mask:#x}", want.tag),
    };
    match want.source_mask {
        0 => format!("{what} from anyone"),
        _ => format!("{what} from rank {}", want.source),
    }
}
