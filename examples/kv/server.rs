//! Rank 0: the store.
//!
//! The handler of active messages only keeps what came; the loop below works through it. So nothing
//! of the store is touched while the library is in the middle of something.
//!
//! A short value comes with its request. A long one lies with its client until the server has
//! allocated a buffer and asked for it; meanwhile other clients are served, and the key changes only when the
//! whole value is there. If the client dies before, the fetch fails, the key keeps what it had, and
//! nobody else notices.

use std::collections::HashMap;

use anyhow::{Context as _, Result};
use bowline::Member;
use bowline::base::buffer::{RecvBuf, SendBuf};
use bowline::ucp::{AmKept, Ep, RequestId, Sent, Worker};
use serde::Serialize;

use crate::client::ClientReport;
use crate::inbox::keep_messages;
use crate::protocol::{How, REPLY, REQUEST, Reply, Request, VALUE_MAX, What};

/// What the server has seen.
#[derive(Debug, Default, Serialize)]
pub(crate) struct ServerReport {
    pub(crate) puts: u64,
    pub(crate) gets: u64,
    pub(crate) deletes: u64,
    /// Requests that were refused.
    pub(crate) refused: u64,
    /// Values that died with their clients before they were here.
    pub(crate) lost: u64,
    /// Keys with a value at the end.
    pub(crate) keys: usize,
    /// Ranks of clients that died.
    pub(crate) dead: Vec<u32>,
    /// Ranks of clients that left, with their reports.
    pub(crate) clients: Vec<(u32, ClientReport)>,
}

/// A long value on its way here.
struct Incoming {
    fetch: RequestId,
    from: Ep,
    number: u32,
    key: Vec<u8>,
}

struct Server<'a> {
    worker: &'a Worker,
    /// Endpoints of the clients, by rank less one.
    clients: Vec<Ep>,
    values: HashMap<Vec<u8>, Vec<u8>>,
    incoming: Vec<Incoming>,
    /// Replies whose data still lies here.
    outgoing: Vec<RequestId>,
    report: ServerReport,
}

/// Serves until every client has left or died.
pub(crate) fn serve(member: &Member) -> Result<ServerReport> {
    let worker = member.worker();
    let inbox = keep_messages(worker, REQUEST);
    let clients: Result<Vec<Ep>, _> = (1..member.size()).map(|rank| member.connect(rank)).collect();
    // From here on the server answers.
    member.barrier().context("not all clients have come")?;
    let mut server = Server {
        worker,
        clients: clients?,
        values: HashMap::new(),
        incoming: Vec::new(),
        outgoing: Vec::new(),
        report: ServerReport::default(),
    };
    while server.report.clients.len() + server.report.dead.len() < server.clients.len() {
        worker.wait_until(|| {
            !inbox.is_empty()
                || server.incoming.iter().any(|value| worker.is_complete(value.fetch))
                || worker.failures().len() != server.report.dead.len()
        });
        // One at a time, since the next one may come while this one is served.
        while let Some(message) = inbox.pop() {
            server.request(message);
        }
        server.take_values();
        server.outgoing.retain(|&id| worker.take(id).is_none());
        server.note_deaths();
    }
    worker.wait_until(|| server.outgoing.iter().all(|&id| worker.is_complete(id)));
    let Server { mut report, values, .. } = server;
    report.keys = values.len();
    Ok(report)
}

impl Server<'_> {
    fn request(&mut self, message: AmKept) {
        let from = message.from();
        let Some(Request { what, number, key }) = Request::decode(message.header()) else {
            // Without a number there is nothing to reply to.
            self.worker.am_drop(message);
            self.report.refused += 1;
            return;
        };
        if message.len() > VALUE_MAX {
            self.worker.am_drop(message);
            return self.reply(from, How::Refused, number, Vec::new());
        }
        match (what, message.data().map(<[u8]>::to_vec)) {
            (What::Put, Some(value)) => {
                self.worker.am_drop(message);
                self.put(from, number, key, value);
            }
            (What::Put, None) => {
                let buffer = RecvBuf::owned(vec![0; message.len() as usize]);
                match self.worker.am_recv(message, buffer) {
                    Ok(fetch) => self.incoming.push(Incoming { fetch, from, number, key }),
                    Err(_) => self.report.lost += 1,
                }
            }
            (What::Get, _) => {
                self.worker.am_drop(message);
                self.report.gets += 1;
                match self.values.get(&key) {
                    Some(value) => self.reply(from, How::Done, number, value.clone()),
                    None => self.reply(from, How::Missing, number, Vec::new()),
                }
            }
            (What::Delete, _) => {
                self.worker.am_drop(message);
                self.report.deletes += 1;
                let how = if self.values.remove(&key).is_some() { How::Done } else { How::Missing };
                self.reply(from, how, number, Vec::new());
            }
            (What::Bye, data) => {
                self.worker.am_drop(message);
                self.goodbye(from, number, &data.unwrap_or_default());
            }
        }
    }

    fn put(&mut self, from: Ep, number: u32, key: Vec<u8>, value: Vec<u8>) {
        self.report.puts += 1;
        self.values.insert(key, value);
        self.reply(from, How::Done, number, Vec::new());
    }

    /// A client leaves: one that this server knows, once, with a report that can be read.
    fn goodbye(&mut self, from: Ep, number: u32, report: &[u8]) {
        let rank = self.clients.iter().position(|&ep| ep == from).map(|at| at as u32 + 1);
        let known = |rank: &u32| !self.report.clients.iter().any(|(known, _)| known == rank);
        match (rank.filter(known), serde_json::from_slice(report)) {
            (Some(rank), Ok(report)) => {
                self.report.clients.push((rank, report));
                self.reply(from, How::Done, number, Vec::new());
            }
            _ => self.reply(from, How::Refused, number, Vec::new()),
        }
    }

    /// Stores the long values that have come.
    fn take_values(&mut self) {
        let mut at = 0;
        while at < self.incoming.len() {
            let Some((status, value)) = self.worker.take_with_buffer(self.incoming[at].fetch)
            else {
                at += 1;
                continue;
            };
            let Incoming { from, number, key, .. } = self.incoming.swap_remove(at);
            match (status.outcome, value) {
                (Ok(()), Some(value)) => self.put(from, number, key, value),
                _ => self.report.lost += 1,
            }
        }
    }

    fn reply(&mut self, to: Ep, how: How, number: u32, data: Vec<u8>) {
        self.report.refused += u64::from(how == How::Refused);
        let header = Reply { how, number }.encode();
        match self.worker.am_send(to, REPLY, &header, SendBuf::owned(data)) {
            Ok(Sent::Done) => {}
            Ok(Sent::Pending(id)) => self.outgoing.push(id),
            // Who has died waits for no reply.
            Err(error) => eprintln!("kv: a reply has nobody to go to: {error}"),
        }
    }

    /// A client that died before it left. One that has left may end as it likes.
    fn note_deaths(&mut self) {
        for rank in self.worker.failures() {
            let left = self.report.clients.iter().any(|(known, _)| *known == rank);
            if !left && !self.report.dead.contains(&rank) {
                eprintln!("kv: client {rank} has died; the others are served on");
                self.report.dead.push(rank);
            }
        }
    }
}
