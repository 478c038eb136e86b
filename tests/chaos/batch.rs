//! Many nonblocking messages at once, and which receive may get which.
//!
//! A destination receives in one mode. *Exact*: each receive names source and tag. *AnyTag*: some
//! name the source alone. In both, matching is the one stable pairing of a source's messages with
//! the receives that name it, whatever the timing. *AnySource*: each names a tag; *Wild*: none
//! names anything. Then the k-th receive, in order of posting, that got a message of a source (and
//! tag) got the k-th such message.

use bowline::mpi::{
    ANY_SOURCE, ANY_TAG, AnyRequest, Communicator, MpiError, Request as _, Status, test_some,
    wait_all, wait_any, wait_some,
};
use bowline::simulate::Random;

use crate::case::Case;
use crate::content::{bytes, mix};
use crate::program::give_up;

/// A message of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mail {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// Within the step's tags.
    pub(crate) tag: i32,
    pub(crate) len: usize,
    pub(crate) synchronous: bool,
}

/// A receive of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Want {
    pub(crate) source: Option<usize>,
    pub(crate) tag: Option<i32>,
}

/// How a destination receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    #[default]
    Exact,
    AnyTag,
    AnySource,
    Wild,
}

/// A batch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    pub(crate) mail: Vec<Mail>,
    /// By destination, in order of posting.
    pub(crate) wants: Vec<Vec<Want>>,
    pub(crate) modes: Vec<Mode>,
    /// Of how requests are posted and completed.
    pub(crate) style: u64,
}

/// The stable pairing of the messages of `from` with the receives of `to` that name it: for each
/// of these receives, in order, the message. `None` when one is left over.
pub(crate) fn stable(batch: &Batch, from: usize, to: usize) -> Option<Vec<usize>> {
    let mut free: Vec<usize> = (0..batch.mail.len())
        .filter(|&m| batch.mail[m].from == from && batch.mail[m].to == to)
        .collect();
    let wants = batch.wants[to].iter().filter(|want| want.source == Some(from));
    let mut pairs = Vec::new();
    for want in wants {
        let fits = |&m: &usize| want.tag.is_none_or(|tag| tag == batch.mail[m].tag);
        let place = free.iter().position(fits)?;
        pairs.push(free.remove(place));
    }
    free.is_empty().then_some(pairs)
}

impl Batch {
    pub(crate) fn add(&mut self, from: usize, to: usize, tag: i32, len: usize, synchronous: bool) {
        self.mail.push(Mail { from, to, tag, len, synchronous });
    }

    /// Chooses the receives of `to`.
    pub(crate) fn receive(&mut self, random: &mut Random, to: usize, mode: Mode) {
        let mut mine: Vec<Mail> = self.mail.iter().filter(|mail| mail.to == to).copied().collect();
        for place in (1..mine.len()).rev() {
            mine.swap(place, random.below(place as u64 + 1) as usize);
        }
        let want = |mail: &Mail, random: &mut Random| match mode {
            Mode::Exact => Want { source: Some(mail.from), tag: Some(mail.tag) },
            Mode::AnyTag => {
                let tag = (random.below(2) == 0).then_some(mail.tag);
                Want { source: Some(mail.from), tag }
            }
            Mode::AnySource => Want { source: None, tag: Some(mail.tag) },
            Mode::Wild => Want { source: None, tag: None },
        };
        let wants = mine.iter().map(|mail| want(mail, random)).collect();
        self.wants.push(wants);
        self.modes.push(mode);
        let all =
            (0..=self.mail.iter().map(|mail| mail.from).max().unwrap_or(0)).collect::<Vec<_>>();
        let whole =
            mode != Mode::AnyTag || all.iter().all(|&from| stable(self, from, to).is_some());
        if !whole {
            // A receive of any tag would take what another one needs.
            let exact = |mail: &Mail| Want { source: Some(mail.from), tag: Some(mail.tag) };
            self.wants[to] = mine.iter().map(exact).collect();
        }
    }

    pub(crate) fn is_wild(&self) -> bool {
        self.modes.contains(&Mode::Wild)
    }

    fn payload(&self, seed: u64, mail: usize) -> Vec<u8> {
        bytes(mix(&[seed, mail as u64]), self.mail[mail].len)
    }

    /// This rank's part. `seed` is that of the contents, `tags` the first tag of the step.
    pub(crate) fn run(
        &self,
        comm: &Communicator,
        seed: u64,
        tags: i32,
        case: &Case,
    ) -> Result<(), MpiError> {
        let me = comm.rank() as usize;
        let mut random = Random::new(mix(&[self.style, me as u64]));
        let out: Vec<usize> = (0..self.mail.len()).filter(|&m| self.mail[m].from == me).collect();
        let mut payloads: Vec<Vec<u8>> = out.iter().map(|&m| self.payload(seed, m)).collect();
        if case.corrupt
            && let Some(byte) = payloads.iter_mut().find_map(|p| p.first_mut())
        {
            *byte ^= 1;
        }
        let capacity = self.mail.iter().filter(|m| m.to == me).map(|m| m.len).max().unwrap_or(0);
        let wants = &self.wants[me];
        let mut buffers = vec![vec![0_u8; capacity]; wants.len()];
        let mut statuses = vec![None; wants.len()];
        comm.scope(|scope| {
            let (mut requests, mut whose) = (Vec::new(), Vec::new());
            let (mut sends, mut receives) =
                (out.iter().zip(&payloads), wants.iter().zip(&mut buffers).enumerate());
            let (mut to_send, mut to_receive) = (sends.len() as u64, wants.len() as u64);
            while to_send + to_receive > 0 {
                if random.below(to_send + to_receive) < to_send {
                    to_send -= 1;
                    let (&m, payload) = sends.next().expect("counted");
                    let mail = &self.mail[m];
                    let (dest, tag) = (mail.to as i32, tags + mail.tag);
                    let request = if mail.synchronous {
                        give_up(scope.issend(comm, &payload[..], dest, tag))?
                    } else {
                        give_up(scope.isend(comm, &payload[..], dest, tag))?
                    };
                    requests.push(AnyRequest::from(request));
                    whose.push(None);
                } else {
                    to_receive -= 1;
                    let (number, (want, buffer)) = receives.next().expect("counted");
                    let source = want.source.map_or(ANY_SOURCE, |source| source as i32);
                    let tag = want.tag.map_or(ANY_TAG, |tag| tags + tag);
                    requests.push(give_up(scope.irecv(comm, &mut buffer[..], source, tag))?.into());
                    whose.push(Some(number));
                }
            }
            for (request, status) in give_up(complete(&mut random, &mut requests, case.is_calm()))?
            {
                if let Some(number) = whose[request] {
                    statuses[number] = Some(status);
                }
            }
            Ok(())
        })?;
        self.check(me, seed, tags, &buffers, &statuses);
        if self.is_wild() { comm.barrier() } else { Ok(()) }
    }

    /// That every receive got a message that it may have got.
    fn check(
        &self,
        me: usize,
        seed: u64,
        tags: i32,
        buffers: &[Vec<u8>],
        statuses: &[Option<Status>],
    ) {
        let mut taken = vec![false; self.mail.len()];
        let stable: Vec<_> =
            (0..self.wants.len()).map(|from| stable(self, from, me).map(Vec::into_iter)).collect();
        let mut stable = stable;
        for (number, (want, status)) in self.wants[me].iter().zip(statuses).enumerate() {
            let status = status.expect("oracle: every receive completes once");
            let (source, tag) = (status.source() as usize, status.tag() - tags);
            let expected = match want.source {
                Some(from) => stable[from].as_mut().and_then(Iterator::next),
                None => self.mail.iter().zip(&taken).position(|(mail, taken)| {
                    let fits = mail.to == me && mail.from == source && !taken;
                    fits && want.tag.is_none_or(|tag| tag == mail.tag)
                }),
            };
            let mail = expected.unwrap_or_else(|| {
                panic!(
                    "oracle: receive {number} {want:?} got a message that nobody sent: {status:?}"
                )
            });
            let is = &self.mail[mail];
            assert!(
                !std::mem::replace(&mut taken[mail], true),
                "oracle: message {mail} came twice"
            );
            assert_eq!(
                (source, tag, status.bytes()),
                (is.from, is.tag, is.len as u64),
                "oracle: receive {number} {want:?} should have got message {mail}"
            );
            assert!(
                buffers[number][..is.len] == self.payload(seed, mail),
                "oracle: the bytes of message {mail} changed"
            );
            assert!(
                buffers[number][is.len..].iter().all(|&byte| byte == 0),
                "oracle: bytes behind message {mail} were written"
            );
        }
    }
}

/// Completes all requests in one of several ways; gives the status of each.
fn complete(
    random: &mut Random,
    requests: &mut [AnyRequest<'_>],
    calm: bool,
) -> Result<Vec<(usize, Status)>, MpiError> {
    let mut done = Vec::new();
    // Where ranks fail, a program that waits for one request after the other may wait for a send
    // whose receive has failed, its own among them, and never test that receive.
    let first = if calm { 0 } else { 2 };
    match first + random.below(5 - first) {
        0 => done.extend(wait_all(requests)?.into_iter().enumerate()),
        1 => {
            let mut order: Vec<usize> = (0..requests.len()).collect();
            for place in (1..order.len()).rev() {
                order.swap(place, random.below(place as u64 + 1) as usize);
            }
            for request in order {
                done.push((request, requests[request].complete()?));
            }
        }
        2 => {
            while let Some((request, outcome)) = wait_any(requests) {
                done.push((request, outcome?));
            }
        }
        3 => {
            while done.len() < requests.len() {
                for (request, outcome) in test_some(requests) {
                    done.push((request, outcome?));
                }
            }
        }
        _ => loop {
            let some = wait_some(requests);
            if some.is_empty() {
                break;
            }
            for (request, outcome) in some {
                done.push((request, outcome?));
            }
        },
    }
    Ok(done)
}
