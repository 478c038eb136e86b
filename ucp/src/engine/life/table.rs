//! The protocols of a worker, and what it keeps for them beside its requests.

use std::any::{Any, TypeId};

use super::Life;
use crate::peer::PeerIndex;
use crate::protocol::Protocol;
use crate::request::Sender;
use crate::settings::Options;
use crate::wire::MessageId;

/// What a worker keeps for a protocol, beside the requests.
pub(crate) trait Keeps: Any + std::marker::Send {
    /// The peers that it names; of those that are `gone` it waits for nothing.
    fn peers(&self, gone: &dyn Fn(PeerIndex) -> bool) -> Vec<PeerIndex>;

    /// The slot of a peer that is over becomes another's.
    fn forget(&mut self, _: PeerIndex) {}

    /// Whether the protocol is to be polled now and then.
    fn waits(&self) -> bool {
        false
    }
}

/// Few, each with its type beside it, by which it is found without a call.
#[derive(Default)]
pub(crate) struct Kept(Vec<(TypeId, &'static Protocol, Box<dyn Keeps>)>);

impl Kept {
    pub(crate) fn add(&mut self, protocol: &'static Protocol, kept: Box<dyn Keeps>) {
        self.0.push(((*kept).type_id(), protocol, kept));
    }

    /// What is kept as `T`.
    pub(crate) fn of<T: Keeps>(&self) -> &T {
        let found = self.0.iter().find(|(kind, ..)| *kind == TypeId::of::<T>());
        let found = found.and_then(|(.., kept)| (&**kept as &dyn Any).downcast_ref());
        found.expect("a protocol is registered with what is kept for it")
    }

    /// The same, to change it.
    pub(crate) fn of_mut<T: Keeps>(&mut self) -> &mut T {
        let found = self.0.iter_mut().find(|(kind, ..)| *kind == TypeId::of::<T>());
        let found = found.and_then(|(.., kept)| (&mut **kept as &mut dyn Any).downcast_mut());
        found.expect("a protocol is registered with what is kept for it")
    }

    /// All of it, with the protocol that it is for.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static Protocol, &dyn Keeps)> {
        self.0.iter().map(|(_, protocol, kept)| (*protocol, &**kept))
    }

    /// The slot of a peer that is over becomes another's.
    pub(crate) fn forget(&mut self, peer: PeerIndex) {
        self.0.iter_mut().for_each(|(.., kept)| kept.forget(peer));
    }
}

/// Ids of active messages.
const IDS: usize = 32;

/// The protocols of one worker.
#[derive(Default)]
pub(crate) struct Protocols {
    /// All, in the order of preference.
    pub(crate) all: Vec<&'static Protocol>,
    /// Those that do something, in the order in which a receiver asks them.
    pub(crate) lives: Vec<&'static dyn Life>,
    /// By the id of a message: whose it is.
    owners: [Option<&'static dyn Life>; IDS],
    /// Whose those are that share an id. Few.
    numbered: Vec<(u32, &'static dyn Life)>,
    pub(crate) kept: Kept,
}

impl Protocols {
    /// Adds a protocol behind the others, of which the first that can is taken.
    pub(crate) fn add(&mut self, protocol: &'static Protocol, life: Option<&'static dyn Life>) {
        self.all.push(protocol);
        let Some(life) = life else { return };
        self.lives.push(life);
        for id in life.ids() {
            debug_assert!(self.of(*id).is_none(), "a message belongs to one protocol");
            match id.number() {
                Some(number) => self.numbered.push((number, life)),
                None => self.owners[usize::from(id.am().get())] = Some(life),
            }
        }
    }

    /// Adds those of a worker behind the others, with what is kept for them.
    #[cfg(test)]
    pub(crate) fn add_all(&mut self, others: Self) {
        for protocol in others.all {
            let life = others.lives.iter().find(|life| life.protocol() == protocol);
            self.add(protocol, life.copied());
        }
        others.kept.0.into_iter().for_each(|(_, protocol, kept)| self.kept.add(protocol, kept));
    }

    /// What a protocol does that has part in a request.
    pub(crate) fn life(&self, protocol: &Protocol) -> &'static dyn Life {
        let found = self.lives.iter().find(|life| life.protocol() == protocol);
        *found.expect("a protocol with a part in a request is registered")
    }

    /// The state of a send is over.
    pub(crate) fn retire(&mut self, sender: Sender) {
        self.life(sender.protocol()).retire(&mut self.kept, sender);
    }

    /// Whether one watches the receives of a space, a collective one or not.
    pub(crate) fn watch_receives(&self, options: &Options, collective: bool) -> bool {
        self.lives.iter().any(|life| life.watches_receives(options, collective))
    }

    /// The protocol that a message is of.
    pub(crate) fn of(&self, id: MessageId) -> Option<&'static dyn Life> {
        match id.number() {
            Some(number) => {
                self.numbered.iter().find(|(other, _)| *other == number).map(|one| one.1)
            }
            None => *self.owners.get(usize::from(id.am().get()))?,
        }
    }
}
