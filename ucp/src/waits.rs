//! What a worker waits for, in words: for whoever has to explain why nothing moves.
//!
//! It looks at the engine's tables when it is shown, and costs nothing before.

use std::fmt;

use crate::engine::Engine;
use crate::matching::{MatchEngine as _, Want};
use crate::request::Body;
use crate::worker::Worker;

/// Everything that a worker waits for; shown as a list with commas between.
#[derive(Clone, Copy)]
pub struct Waits<'a>(Option<&'a Worker>);

impl<'a> Waits<'a> {
    /// Of a worker whose lock somebody else may have by now.
    pub(crate) const NOBODY: Self = Self(None);

    pub(crate) const fn of(worker: &'a Worker) -> Self {
        Self(Some(worker))
    }
}

impl fmt::Debug for Waits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Waits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(worker) = self.0 else {
            return f.write_str("what several threads wait for");
        };
        let Some(mut inner) = worker.inner.try_borrow_mut() else {
            return f.write_str("it is inside of a call");
        };
        let all = list(&mut inner.engine);
        if all.is_empty() {
            return f.write_str("no request; a condition of its program");
        }
        f.write_str(&all.join(", "))
    }
}

fn list(engine: &mut Engine) -> Vec<String> {
    let mut all = Vec::new();
    if let Some(want) = engine.direct.waits_for() {
        all.push(receive(want, false));
    }
    for space in engine.spaces.iter_mut() {
        let collective = space.options.collective;
        let note = &mut |want: &Want| {
            all.push(receive(*want, collective));
            false
        };
        space.engine.remove_posted_where(note, &mut Vec::new());
    }
    for (_, request) in engine.requests.iter().filter(|(_, request)| !request.done) {
        match &request.body {
            Body::Send(send) => {
                let rank = engine.peers[send.peer as usize].address.rank;
                let (bytes, phase) = (send.buffer.len(), send.phase);
                all.push(format!("a send of {bytes} bytes to rank {rank} of the job ({phase:?})"));
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
                let (has, room) = Engine::stream_room(receive);
                all.push(format!("bytes of rank {rank}'s stream ({has} of {room} are here)"));
            }
            Body::OneSided(one) if one.task.is_none() && one.emulated.is_none() => {
                all.push("a flush, or the close of an endpoint".to_owned());
            }
            Body::OneSided(_) => all.push("a one-sided operation".to_owned()),
            Body::Announced(announced) => {
                let rank = engine.peers[announced.peer as usize].address.rank;
                all.push(format!("whether rank {rank} of the job writes to an announced receive"));
            }
            Body::Free => {}
        }
    }
    all
}

fn receive(want: Want, collective: bool) -> String {
    let what = if collective { "a collective's message" } else { "a message" };
    let tag = match want.tag_mask {
        u64::MAX => format!("tag {:#x}", want.tag),
        mask => format!("tag {:#x} under mask {mask:#x}", want.tag),
    };
    match want.source_mask {
        0 => format!("{what} from anyone with {tag}"),
        _ => format!("{what} from rank {} with {tag}", want.source),
    }
}
