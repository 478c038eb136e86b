//! What an interface does with its handshakes: it accepts, goes on with each as its messages come, and
//! drops those that are wrong or too slow.
//!
//! What a handshake is, and its states, are in [`crate::handshake`].

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use crate::auth;
use crate::connect::Setback;
use crate::handshake::{Filled, Handshake, Role, Stage};
use crate::hello::{self, Answer, BadHello, CHALLENGE_SIGNED, Challenge, Hello, Kind, Verdict};
use crate::iface::{TcpIface, random, tag};
use crate::socket;

/// A handshake that is dropped for another one has been under way at least this long.
const REPLACEABLE_AFTER: Duration = Duration::from_millis(100);
/// Newcomers accepted in one call.
const WELCOMES: usize = 64;

/// What becomes of a handshake.
enum Fate {
    Stays,
    /// It is gone, or has become something else.
    Over,
}

impl TcpIface {
    /// Takes in a handshake and names it.
    pub(crate) fn add_handshake(&mut self, mut handshake: Handshake) -> Option<u32> {
        let free = self.handshakes.iter().position(Option::is_none);
        let index = free.unwrap_or(self.handshakes.len()) as u32;
        let mut flags = EventFlags::IN | EventFlags::RDHUP;
        if handshake.stage == Stage::Reaching {
            flags |= EventFlags::OUT;
        }
        if let Err(error) = self.watch(handshake.socket.as_fd(), tag::HANDSHAKE, index, flags) {
            tracing::warn!(%error, "cannot take in a connection");
            return None;
        }
        handshake.number = self.next_handshake;
        self.next_handshake += 1;
        match free {
            Some(free) => self.handshakes[free] = Some(Box::new(handshake)),
            None => self.handshakes.push(Some(Box::new(handshake))),
        }
        self.restless += 1;
        self.set_timer();
        Some(index)
    }

    /// Takes a handshake out; its socket is still watched.
    pub(crate) fn take_handshake(&mut self, index: u32) -> Option<Box<Handshake>> {
        let handshake = self.handshakes.get_mut(index as usize)?.take()?;
        self.restless -= 1;
        self.requests.retain(|&waiting| waiting != index);
        Some(handshake)
    }

    pub(crate) fn drop_handshake(&mut self, index: u32) {
        if let Some(handshake) = self.take_handshake(index) {
            // A forked child may hold the socket, so closing alone would not do it.
            let _ = rustix::event::epoll::delete(&self.epoll, &handshake.socket);
        }
        self.set_timer();
    }

    /// Accepts who has come to a listener.
    pub(crate) fn welcome_handshakes(&mut self, listener: u32) {
        for _ in 0..WELCOMES {
            if !self.may_take_handshake() {
                return self.pause_listener(listener, true);
            }
            let Some(listening) = self.listeners.get(&listener) else { return };
            match socket::accept(&listening.fd) {
                Ok(Some((socket, from))) => {
                    self.accept_logged = false;
                    if let Err(error) = socket::prepare(&socket, &self.options) {
                        tracing::debug!(%error, "a connection ended before it was accepted");
                        continue;
                    }
                    self.add_handshake(Handshake::server(socket, listener, from));
                }
                Ok(None) => return self.pause_listener(listener, false),
                Err(error) => {
                    // Out of descriptors or memory: the connection waits in the kernel.
                    if !std::mem::replace(&mut self.accept_logged, true) {
                        tracing::error!(%error, "cannot accept a connection; raise ulimit -n");
                    }
                    return self.pause_listener(listener, true);
                }
            }
        }
    }

    /// Whether one more handshake may come in; the oldest is dropped for it if it is old enough.
    fn may_take_handshake(&mut self) -> bool {
        let served = |handshake: &&Handshake| {
            matches!(handshake.role, Role::Server { .. }) && handshake.stage != Stage::User
        };
        let all = self.handshakes.iter().flatten().map(|handshake| &**handshake).filter(served);
        if all.count() < self.options.handshakes as usize {
            return true;
        }
        let oldest = (0..)
            .zip(&self.handshakes)
            .filter_map(|(index, handshake)| Some((index, handshake.as_deref()?)))
            .filter(|(_, handshake)| served(handshake))
            .min_by_key(|(_, handshake)| handshake.since)
            .filter(|(_, handshake)| handshake.since.elapsed() >= REPLACEABLE_AFTER)
            .map(|(index, _): (u32, _)| index);
        let Some(oldest) = oldest else { return false };
        self.refuse_handshake(oldest, "it was silent while others wanted its place");
        true
    }

    /// Drops a handshake for a reason that is logged once.
    #[cold]
    fn refuse_handshake(&mut self, index: u32, why: &str) {
        self.counters.handshakes_dropped += 1;
        if let Some(Some(handshake)) = self.handshakes.get(index as usize)
            && let Role::Server { from, .. } = handshake.role
            && !std::mem::replace(&mut self.handshake_logged, true)
        {
            tracing::warn!(
                %from,
                why,
                "dropped a connection that is not of this job; others are dropped without another \
                 line here, see the counter handshakes_dropped"
            );
        }
        self.drop_handshake(index);
    }

    /// Drops handshakes whose time is over.
    pub(crate) fn overdue_handshakes(&mut self, now: Instant) {
        for index in 0..self.handshakes.len() as u32 {
            let Some(Some(handshake)) = self.handshakes.get(index as usize) else { continue };
            let age = now.saturating_duration_since(handshake.since);
            match (handshake.role, handshake.stage) {
                // The client has given up by itself after that time.
                (_, Stage::User) if age >= self.options.connect_timeout => {
                    self.reject_overdue(index)
                }
                (_, Stage::User) => {}
                (Role::Server { .. }, _) if age >= self.options.handshake_timeout => {
                    self.refuse_handshake(index, "it did not finish its handshake in time");
                }
                // The kernel gets no answer from that host.
                (Role::Client { peer }, Stage::Reaching) if age >= self.options.timeout => {
                    self.drop_handshake(index);
                    self.place_failed(peer, Setback::SILENCE);
                }
                _ => {}
            }
        }
    }

    /// A request that the user has not answered is over.
    #[cold]
    fn reject_overdue(&mut self, index: u32) {
        if let Some(handshake) = self.take_handshake(index) {
            let _ = self.say_answer(&handshake, Verdict::Rejected, &[]);
        }
    }

    /// Goes on with a handshake as far as what has come allows.
    pub(crate) fn step_handshake(&mut self, index: u32) {
        let Some(Some(handshake)) = self.handshakes.get_mut(index as usize) else { return };
        let kind = match handshake.stage {
            Stage::Reaching => return self.step_reaching(index),
            // A client that waits for the user's decision says nothing; if it does, or ends, it is over.
            Stage::User => return self.drop_handshake(index),
            Stage::Await(kind) => kind,
        };
        match handshake.fill(kind) {
            Filled::Part => {}
            Filled::Gone => self.handshake_gone(index),
            Filled::Bad(bad) => self.handshake_bad(index, bad),
            Filled::Whole => {
                let mut handshake = self.handshakes[index as usize].take().expect("read above");
                let message = std::mem::take(&mut handshake.buffer);
                let fate = match kind {
                    Kind::Hello => self.heard_hello(&mut handshake, &message),
                    Kind::Challenge => self.heard_challenge(&mut handshake, &message),
                    Kind::Auth => self.heard_auth(&mut handshake, &message),
                    Kind::Answer => self.heard_answer(&mut handshake, &message),
                };
                // It stays in its place in any case: what follows finds it there.
                self.handshakes[index as usize] = Some(handshake);
                match fate {
                    Ok(next) => {
                        if let Fate::Stays = self.go_on(index, next) {
                            // More may have come already.
                            self.step_handshake(index);
                        }
                    }
                    Err(bad) => self.handshake_bad(index, bad),
                }
            }
        }
    }

    /// The stream ended in the middle of a handshake.
    fn handshake_gone(&mut self, index: u32) {
        let Some(Some(handshake)) = self.handshakes.get(index as usize) else { return };
        let role = handshake.role;
        self.drop_handshake(index);
        if let Role::Client { peer } = role {
            self.try_again(peer);
        }
    }

    #[cold]
    fn handshake_bad(&mut self, index: u32, bad: BadHello) {
        let Some(Some(handshake)) = self.handshakes.get(index as usize) else { return };
        match handshake.role {
            Role::Server { .. } => self.refuse_handshake(index, &bad.to_string()),
            Role::Client { peer } => {
                tracing::warn!(why = %bad, "the peer's listener is not of this job");
                self.drop_handshake(index);
                self.place_failed(peer, Setback::lasting(bowline_uct::PeerFailure::Refused));
            }
        }
    }

    fn step_reaching(&mut self, index: u32) {
        let Some(Some(handshake)) = self.handshakes.get_mut(index as usize) else { return };
        let Role::Client { peer } = handshake.role else { return };
        match socket::connected(&handshake.socket) {
            None => {}
            Some(Ok(())) => {
                handshake.expect(Kind::Challenge);
                let said = handshake.say(&[&handshake.hello]);
                let flags = EventFlags::IN | EventFlags::RDHUP;
                if let Some(Some(handshake)) = self.handshakes.get(index as usize) {
                    self.rewatch(handshake.socket.as_fd(), tag::HANDSHAKE, index, flags);
                }
                if said.is_err() {
                    self.handshake_gone(index);
                }
            }
            Some(Err(error)) => {
                self.drop_handshake(index);
                self.place_failed(peer, Setback::of(error));
            }
        }
    }

    fn heard_hello(&mut self, s: &mut Handshake, message: &[u8]) -> Result<Next, BadHello> {
        Hello::decode(message)?;
        s.hello.copy_from_slice(message);
        let mut nonce = [0; 32];
        random(&mut nonce).map_err(|_| BadHello::Malformed("no random numbers to be had"))?;
        let signed = Challenge { nonce, uid: self.uid }.encode();
        let mac = self.options.secret.sign(auth::SERVER, &[&s.hello, &signed]);
        s.challenge[..CHALLENGE_SIGNED].copy_from_slice(&signed);
        s.challenge[CHALLENGE_SIGNED..].copy_from_slice(&mac);
        s.expect(Kind::Auth);
        Ok(if s.say(&[&s.challenge]).is_ok() { Next::Wait } else { Next::Gone })
    }

    fn heard_challenge(&mut self, s: &mut Handshake, message: &[u8]) -> Result<Next, BadHello> {
        let (challenge, mac) = Challenge::decode(message)?;
        let signed = &message[..CHALLENGE_SIGNED];
        if !self.options.secret.verify(auth::SERVER, &[&s.hello, signed], mac) {
            return Err(BadHello::Malformed("it does not know the job's secret"));
        }
        let wanted = s.hello().map_or(0, |hello| hello.wanted);
        if wanted != 0 && challenge.uid != wanted {
            // Somebody else of the job has the port now: the peer is gone.
            return Ok(Next::WrongPeer);
        }
        s.challenge.copy_from_slice(message);
        let private = match s.role {
            Role::Client { peer } => self.private_of(peer),
            Role::Server { .. } => Vec::new(),
        };
        let front = hello::encode_auth(&private);
        let parts: [&[u8]; 4] = [&s.hello, &s.challenge, &front, &private];
        s.auth = self.options.secret.sign(auth::CLIENT, &parts);
        s.expect(Kind::Answer);
        Ok(if s.say(&[&front, &s.auth, &private]).is_ok() { Next::Wait } else { Next::Gone })
    }

    fn heard_auth(&mut self, s: &mut Handshake, message: &[u8]) -> Result<Next, BadHello> {
        let (front, mac, private) = hello::decode_auth(message)?;
        let parts: [&[u8]; 4] = [&s.hello, &s.challenge, front, private];
        if !self.options.secret.verify(auth::CLIENT, &parts, mac) {
            return Err(BadHello::Malformed("it does not know the job's secret"));
        }
        s.auth.copy_from_slice(mac);
        s.private = private.to_vec();
        Ok(Next::Decide)
    }

    fn heard_answer(&mut self, s: &mut Handshake, message: &[u8]) -> Result<Next, BadHello> {
        let (answer, (front, mac, private)) = Answer::decode(message)?;
        if !self.options.secret.verify(auth::ANSWER, &[&s.auth, front, private], mac) {
            return Err(BadHello::Malformed("its answer is not signed with the job's secret"));
        }
        s.private = private.to_vec();
        Ok(Next::Answered(answer))
    }

    fn go_on(&mut self, index: u32, next: Next) -> Fate {
        match next {
            Next::Wait => return Fate::Stays,
            Next::Gone => self.handshake_gone(index),
            Next::WrongPeer => self.wrong_peer(index),
            Next::Decide => self.decide(index),
            Next::Answered(answer) => self.obey(index, answer),
        }
        Fate::Over
    }

    /// Sends the last message of a handshake.
    pub(crate) fn say_answer(
        &self,
        handshake: &Handshake,
        verdict: Verdict,
        private: &[u8],
    ) -> Result<(), Errno> {
        let front = Answer { verdict, void: self.attempts }.encode(private);
        let mac = self.options.secret.sign(auth::ANSWER, &[&handshake.auth, &front, private]);
        handshake.say(&[&front, &mac, private])
    }
}

/// What follows from a message of the handshake.
enum Next {
    /// The next message.
    Wait,
    Gone,
    WrongPeer,
    Decide,
    Answered(Answer),
}
