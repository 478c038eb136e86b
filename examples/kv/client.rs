//! Ranks from 1 on: each works on keys of its own, one request at a time, and compares every value
//! that it gets with what it has put last.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use bowline::Member;
use bowline::base::buffer::{RecvBuf, SendBuf};
use bowline::ucp::{Ep, Sent, Worker};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::Options;
use crate::inbox::{Inbox, keep_messages};
use crate::protocol::{How, REPLY, REQUEST, Reply, Request, What};

/// Times of one kind of request, in microseconds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Times {
    pub(crate) requests: u64,
    pub(crate) median: f64,
    pub(crate) p99: f64,
}

/// What a client did.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ClientReport {
    pub(crate) requests: u64,
    pub(crate) seconds: f64,
    pub(crate) short_put: Times,
    pub(crate) short_get: Times,
    pub(crate) long_put: Times,
    pub(crate) long_get: Times,
}

/// Endpoint of the server.
struct Client<'a> {
    worker: &'a Worker,
    server: Ep,
    replies: Inbox,
    number: u32,
}

impl Client<'_> {
    /// Sends a request.
    fn send(&mut self, what: What, key: &[u8], value: Vec<u8>) -> Result<()> {
        self.number = self.number.wrapping_add(1);
        let header = Request { what, number: self.number, key: key.to_vec() }.encode();
        match self.worker.am_send(self.server, REQUEST, &header, SendBuf::owned(value))? {
            Sent::Done => {}
            // The reply says that the value was read.
            Sent::Pending(id) => self.worker.detach(id),
        }
        Ok(())
    }

    /// Sends a request and waits for its reply.
    fn call(&mut self, what: What, key: &[u8], value: Vec<u8>) -> Result<(How, Vec<u8>)> {
        self.send(what, key, value).context("the server does not take a request")?;
        let worker = self.worker;
        worker.wait_until(|| !self.replies.is_empty() || worker.failures().contains(&0));
        let Some(message) = self.replies.pop() else {
            bail!("the server (rank 0) has died; start the job again");
        };
        let Reply { how, number } =
            Reply::decode(message.header()).context("the server's reply cannot be read")?;
        ensure!(number == self.number, "reply {number} where {} was due", self.number);
        if let Some(data) = message.data() {
            let data = data.to_vec();
            worker.am_drop(message);
            return Ok((how, data));
        }
        let buffer = RecvBuf::owned(vec![0; usize::try_from(message.len())?]);
        let fetch = worker.am_recv(message, buffer)?;
        worker.wait_until(|| worker.is_complete(fetch));
        let (status, value) = worker.take_with_buffer(fetch).context("a fetch that is complete")?;
        status.outcome.context("the value could not be fetched from the server")?;
        Ok((how, value.context("the buffer was given to the fetch")?))
    }
}

/// A generator of numbers, good enough to vary a load.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 16) % n
    }
}

/// The value of a key's version: different for each, so that an old or a torn one is seen.
fn value(rank: u32, key: u64, version: u64, len: usize) -> Vec<u8> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ u64::from(rank) << 40 ^ key << 20 ^ version);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend(random.next().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Counts a request that took so long.
fn note(histogram: &mut Histogram<u64>, took: Duration) {
    // The histogram grows as it needs to, which it does not when it is to saturate.
    histogram.record(took.as_nanos() as u64).expect("it has a bucket for every time");
}

fn times(histogram: &Histogram<u64>) -> Times {
    let us = |quantile: f64| histogram.value_at_quantile(quantile) as f64 / 1e3;
    Times { requests: histogram.len(), median: us(0.5), p99: us(0.99) }
}

/// Puts and gets, and says goodbye.
pub(crate) fn work(member: &Member, options: &Options) -> Result<()> {
    let worker = member.worker();
    let server = member.connect(0)?;
    let mut client = Client { worker, server, replies: keep_messages(worker, REPLY), number: 0 };
    member.barrier().context("not all ranks have come")?;
    let rank = member.rank();
    let mut random = Random(0x2545_f491_4f6c_dd1d ^ u64::from(rank));
    // Versions of the keys that have a value, and whether it is a long one.
    let mut versions: HashMap<u64, (u64, bool)> = HashMap::new();
    let mut took = [0; 4].map(|_: u8| Histogram::<u64>::new(3).expect("three digits"));
    let length = |long| if long { options.long } else { options.short };
    let start = Instant::now();
    for request in 0..options.requests {
        let key = random.below(options.keys);
        let name = format!("{rank}/{key}");
        let known = versions.get(&key).copied();
        let long = random.below(100) < options.long_percent;
        if options.kill == Some(rank) && request == options.requests / 2 {
            // In the middle of a long value: the server knows of it and has not got it.
            client.send(What::Put, name.as_bytes(), value(rank, key, 0, options.long))?;
            let own = rustix::process::getpid();
            rustix::process::kill_process(own, rustix::process::Signal::KILL)?;
        }
        let begin = Instant::now();
        let kind = match random.below(20) {
            0 => {
                let (how, _) = client.call(What::Delete, name.as_bytes(), Vec::new())?;
                let expected = if known.is_some() { How::Done } else { How::Missing };
                ensure!(how == expected, "delete {name}: {how:?} where {expected:?} was due");
                versions.remove(&key);
                None
            }
            1..10 => {
                let version = request + 1;
                let bytes = value(rank, key, version, length(long));
                let (how, _) = client.call(What::Put, name.as_bytes(), bytes)?;
                ensure!(how == How::Done, "put {name}: {how:?}");
                versions.insert(key, (version, long));
                Some(if long { 2 } else { 0 })
            }
            _ => {
                let (how, got) = client.call(What::Get, name.as_bytes(), Vec::new())?;
                match known {
                    None => ensure!(how == How::Missing, "get {name}: {how:?}, it has no value"),
                    Some((version, long)) => {
                        ensure!(how == How::Done, "get {name}: {how:?}, it has a value");
                        let expected = value(rank, key, version, length(long));
                        ensure!(got == expected, "get {name}: not the value of version {version}");
                    }
                }
                known.map(|(_, long)| if long { 3 } else { 1 })
            }
        };
        if let Some(kind) = kind {
            note(&mut took[kind], begin.elapsed());
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let [short_put, short_get, long_put, long_get] = took.each_ref().map(times);
    let requests = options.requests;
    let report = ClientReport { requests, seconds, short_put, short_get, long_put, long_get };
    let (how, _) = client.call(What::Bye, b"", serde_json::to_vec(&report)?)?;
    ensure!(how == How::Done, "the server does not let this client go: {how:?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_that_were_noted() {
        let mut histogram = Histogram::new(3).expect("three digits");
        for us in [5, 7, 1_000_000] {
            note(&mut histogram, Duration::from_micros(us));
        }
        let Times { requests, median, p99 } = times(&histogram);
        assert_eq!(requests, 3);
        assert!((median - 7.0).abs() < 0.1, "{median}");
        assert!((p99 - 1e6).abs() < 1e4, "{p99}");
    }
}
