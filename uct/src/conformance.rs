//! The contract's executable half: tests that every provider runs.
//!
//! A provider implements [`Provider`], which opens a group of interfaces in one process, and
//! instantiates the suite in its own tests:
//!
//! ```ignore
//! struct MyProvider { /* what keeps the group alive */ }
//! impl bowline_uct::conformance::Provider for MyProvider { /* .. */ }
//! bowline_uct::conformance!(MyProvider);
//! ```
//!
//! Most tests drive the interfaces from one thread in lockstep, so a failure repeats; those in
//! [`threads`], [`wakeup`] and parts of [`rma`] and [`atomics`] use several threads. What an
//! interface does not claim by its capability bits is not asked of it, except that it says so:
//! the operation answers [`PostError::Unsupported`](crate::PostError::Unsupported). What it claims
//! but cannot keep is listed in [`Provider::EXCLUDED`] with a reason, which is printed.
//!
//! No test asserts a time. Each runs under a watchdog that ends the process with the name of the
//! test, since a hang is the failure that this library must not have.
//!
//! It is not a benchmark, and the sink used here allocates, which the engine's must not.

pub mod address;
pub mod am;
pub mod atomics;
pub mod attributes;
pub mod closing;
mod effort;
pub mod failure;
pub mod flow;
pub mod harness;
pub mod model;
pub mod rma;
pub mod signal_safe;
pub mod threads;
pub mod wakeup;

mod watchdog;

pub use signal_safe::in_signal_safe_call;
pub use watchdog::Watchdog;

use std::any::Any;
use std::fmt;
use std::io::Write as _;

use crate::Iface;

/// A test that a provider does not run, and why.
#[derive(Clone, Copy, Debug)]
pub struct Exclusion {
    /// `group::name` as in the suite's list, for instance `flow::nobody_starves`.
    pub test: &'static str,
    /// The reason, in words for a reader of the list.
    pub reason: &'static str,
}

/// Opens groups of interfaces for the suite. The value keeps alive what they share.
pub trait Provider: Sized + 'static {
    /// The interface under test.
    type Iface: Iface + 'static;

    /// Name in messages.
    const NAME: &'static str;

    /// Whether interfaces reach only themselves. A group then is one interface, and its members
    /// are endpoints of it.
    const LOOPBACK: bool = false;

    /// Whether [`Provider::kill`] works.
    const CAN_KILL: bool = false;

    /// Tests that are not run.
    const EXCLUDED: &'static [Exclusion] = &[];

    /// Why this machine cannot run the suite for this provider: a device or a library that it
    /// lacks. The reason is printed in place of each test.
    fn unavailable() -> Option<String> {
        None
    }

    /// Whether an interface has shaken hands with all that it connected to. A world begins when
    /// every member says so.
    fn settled(iface: &Self::Iface) -> bool {
        let _ = iface;
        true
    }

    /// Opens `size` interfaces that can reach each other, not connected yet; exactly one for a
    /// loopback provider. Failing to open is a failure of the test: panic with the reason.
    fn open(size: usize) -> (Self, Vec<Self::Iface>);

    /// The same for a test that kills members. A provider that notices a death by a time-out has a short one here, and
    /// in [`Provider::open`] one that no machine reaches, however slow it is.
    fn open_to_kill(size: usize) -> (Self, Vec<Self::Iface>) {
        Self::open(size)
    }

    /// Ends the member `index` as a crash would: its interface says nothing to anybody, and
    /// its death has been reported to the survivors.
    fn kill(&mut self, index: usize, iface: Self::Iface) {
        let _ = (index, iface);
        unreachable!("only called when CAN_KILL is set");
    }

    /// Called between rounds of progress when all members are driven by one thread; a simulator
    /// moves its clock here.
    fn step(&mut self) {}
}

/// An interface without its type. Every interface is one.
pub trait Member: Iface {
    /// The interface, to find its type again.
    fn as_any(&self) -> &dyn Any;

    /// The same of an interface that is given away.
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

impl<I: Iface + 'static> Member for I {
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// What a [`Provider`] does with a group that it has opened, without its type.
pub trait Group {
    /// See [`Provider::settled`].
    fn settled(&self, iface: &dyn Member) -> bool;

    /// See [`Provider::kill`].
    fn kill(&mut self, index: usize, iface: Box<dyn Member>);

    /// See [`Provider::step`].
    fn step(&mut self);
}

/// The value of a provider that keeps a group alive.
struct GroupOf<P>(P);

impl<P: Provider> Group for GroupOf<P> {
    fn settled(&self, iface: &dyn Member) -> bool {
        P::settled(iface.as_any().downcast_ref().expect("a group's interfaces are of one type"))
    }
    fn kill(&mut self, index: usize, iface: Box<dyn Member>) {
        let iface = iface.into_any().downcast().expect("a group's interfaces are of one type");
        self.0.kill(index, *iface);
    }
    fn step(&mut self) {
        self.0.step();
    }
}

/// A group, opened.
type Opened = (Box<dyn Group>, Vec<Box<dyn Member>>);

/// A provider without its type: the tests take this, so that they are compiled once and not for
/// every form of every transport.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// [`Provider::NAME`].
    pub name: &'static str,
    /// [`Provider::LOOPBACK`].
    pub loopback: bool,
    /// [`Provider::CAN_KILL`].
    pub can_kill: bool,
    open: fn(usize) -> Opened,
    open_to_kill: fn(usize) -> Opened,
}

impl Subject {
    /// That of `P`.
    pub const fn of<P: Provider>() -> Self {
        Self {
            name: P::NAME,
            loopback: P::LOOPBACK,
            can_kill: P::CAN_KILL,
            open: |size| opened(P::open(size)),
            open_to_kill: |size| opened(P::open_to_kill(size)),
        }
    }

    /// [`Provider::open`].
    pub fn open(self, size: usize) -> Opened {
        (self.open)(size)
    }

    /// [`Provider::open_to_kill`].
    pub fn open_to_kill(self, size: usize) -> Opened {
        (self.open_to_kill)(size)
    }

    /// Which interface of a group belongs to a member of a world.
    pub const fn place(self, member: usize) -> usize {
        if self.loopback { 0 } else { member }
    }
}

fn opened<P: Provider>((provider, ifaces): (P, Vec<P::Iface>)) -> Opened {
    let member = |iface: P::Iface| -> Box<dyn Member> { Box::new(iface) };
    (Box::new(GroupOf(provider)), ifaces.into_iter().map(member).collect())
}

/// Runs `test` for `P` unless it is excluded. Called by [`conformance!`](crate::conformance!).
pub fn run<P: Provider>(name: &'static str, all: &[&str], test: fn(Subject)) {
    for exclusion in P::EXCLUDED {
        assert!(all.contains(&exclusion.test), "no test is called {}", exclusion.test);
        assert!(!exclusion.reason.is_empty(), "the exclusion of {} has no reason", exclusion.test);
        if exclusion.test == name {
            eprintln!("conformance of {}: {name} is not run: {}", P::NAME, exclusion.reason);
            return;
        }
    }
    if let Some(why) = P::unavailable() {
        return skipped(format_args!("{}: {why}", P::NAME));
    }
    let _watchdog = Watchdog::start(P::NAME, name);
    test(Subject::of::<P>());
}

/// Says that the running test, or part of it, is left out because this machine lacks something. The
/// harness keeps what a test prints that passes, so a line goes to the file that `TEST_SKIPS` names as
/// well; `cargo xtask test` shows these lines at its end.
pub fn skipped(why: impl fmt::Display) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let why = why.to_string().replace(['\n', '\t'], " ");
    eprintln!("{test} is not run: {why}");
    let Some(file) = std::env::var_os("TEST_SKIPS") else { return };
    // In one piece: other programs write to it, too.
    let line = format!("{test}\t{why}\n");
    let file = std::fs::OpenOptions::new().append(true).create(true).open(file);
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    written.expect("the file of TEST_SKIPS can be written");
}

/// Says that part of a test does not apply.
pub(crate) fn not_applicable(of: Subject, why: &str) {
    eprintln!("conformance of {}: does not apply: {why}", of.name);
}

/// Compares the sequence numbers of one stream of messages with `first..first + count`: nothing lost,
/// nothing doubled, and in order where the interface says that it keeps it.
#[track_caller]
pub(crate) fn in_sequence(
    of: Subject,
    attr: &crate::IfaceAttr,
    mut stream: Vec<u64>,
    first: u64,
    count: u64,
) {
    if !attr.caps.contains(crate::Caps::AM_ORDERED) {
        stream.sort_unstable();
    }
    let expected = first..first + count;
    assert!(
        stream.iter().copied().eq(expected),
        "{}: lost, doubled or out of order: {stream:?}",
        of.name
    );
}

/// Makes a `#[test]` of every test of the suite, for one [`Provider`](conformance::Provider), in
/// a module `conformance_suite`. It has to stand where the provider's name is in scope.
#[macro_export]
macro_rules! conformance {
    ($provider:ident) => {
        $crate::__conformance_list! { $provider;
            attributes: {
                limits_and_bits_agree, missing_operations_say_so, memory_is_constant_in_peers,
                sources_are_known_beforehand, numbers_of_endpoints_are_small,
            }
            address: {
                own_peers_are_reachable, damaged_addresses_are_refused_with_a_reason,
                foreign_addresses_are_refused_with_a_reason, changed_addresses_do_no_harm,
            }
            am: {
                short_lengths, bcopy_lengths, zcopy_lengths, zcopy_pieces, bcopy_packs_less,
                every_id, headers_are_intact, order_across_flavours, both_directions,
                everybody_to_everybody,
            }
            flow: {
                refused_short_is_unobservable, refused_bcopy_is_unobservable,
                refused_zcopy_is_unobservable, filled_and_drained_again_and_again,
                writable_in_order_of_asking, writable_once_for_each_asking, nobody_starves,
                nobody_starves_of_enough, what_is_left_comes_later,
                budget_is_respected, asking_with_space_is_answered,
            }
            rma: {
                put_lengths, get_lengths, pieces, out_of_range_is_refused,
                damaged_keys_are_refused, the_key_of_a_whole_process, closed_keys_open_nothing,
                released_memory_is_out_of_reach, registered_memory_comes_back,
                direct_views, memory_has_a_view_unless_it_is_exposed, keys_of_allocations,
                put_with_notification,
                flushed_puts_are_visible, fenced_puts_keep_their_order,
                puts_are_visible_before_atomics, puts_are_visible_before_messages,
            }
            atomics: {
                every_operation, neighbours_are_untouched, bad_operands_are_refused,
                contention_with_the_owner,
            }
            wakeup: {
                armed_or_busy, nobody_sleeps_on_what_is_left, rung_by_hand, no_wakeup_is_lost_on_the_doorbell,
                no_wakeup_is_lost_on_the_descriptor, own_messages_wake,
            }
            failure: {
                bad_endpoints_are_refused, invalidated_endpoints_fail_once,
                disconnected_and_connected_again, closed_peers_are_noticed, nothing_is_lost_by_leaving,
                death_is_reported_once, death_ends_operations_in_flight,
                death_of_a_full_peer, survivors_go_on,
            }
            closing: {
                messages_arrive_however_late, messages_arrive_after_a_check, messages_arrive_after_posts,
                messages_arrive_of_one_not_connected_to,
            }
            signal_safe: {
                messages_come_once_and_in_order, a_handler_answers, prepared_memory_is_read_into,
                reads_complete_once, a_handler_lends,
            }
            threads: { streams, ping_pong, many_to_one }
            model: { messages, memory }
        }
    };
}

/// The list behind [`conformance!`].
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_list {
    ($provider:ident; $($group:ident: { $($test:ident),* $(,)? })*) => {
        mod conformance_suite {
            use super::$provider;
            const ALL: &[&str] =
                &[$($(concat!(stringify!($group), "::", stringify!($test)),)*)*];
            $(
                $crate::__conformance_group! { $provider; $group; $($test),* }
            )*
        }
    };
}

/// One group of tests.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_group {
    ($provider:ident; $group:ident; $($test:ident),*) => {
        mod $group {
            use super::{$provider, ALL};
            $(
                #[test]
                fn $test() {
                    $crate::conformance::run::<$provider>(
                        concat!(stringify!($group), "::", stringify!($test)),
                        ALL,
                        $crate::conformance::$group::$test,
                    );
                }
            )*
        }
    };
}
