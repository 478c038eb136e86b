//! The engines over each of the indexes as one type, so that what a space grows into is chosen when
//! it is opened.

use super::grown::{Entries, Grows};
use super::{ArrayIndex, CubeIndex, HashIndex, Indexed, ItemId, MatchEngine, TreeIndex, Want};

/// The indexes that a space's engine may grow.
#[derive(Debug)]
pub(super) enum AnyIndexed {
    Hashed(Indexed<HashIndex>),
    Array(Indexed<ArrayIndex>),
    FourD(Indexed<CubeIndex>),
    Nd(Indexed<TreeIndex>),
}

/// Does the same with whatever it is.
macro_rules! each {
    ($any:expr, $engine:ident => $do:expr) => {
        match $any {
            AnyIndexed::Hashed($engine) => $do,
            AnyIndexed::Array($engine) => $do,
            AnyIndexed::FourD($engine) => $do,
            AnyIndexed::Nd($engine) => $do,
        }
    };
}

impl Grows for AnyIndexed {
    fn break_even(&self) -> u32 {
        each!(self, engine => engine.break_even())
    }

    fn helps(&self) -> fn(&Want) -> bool {
        each!(self, engine => engine.helps())
    }

    fn take_over(&mut self, entries: Entries) {
        each!(self, engine => engine.take_over(entries));
    }

    fn give_up(&mut self) -> Entries {
        each!(self, engine => engine.give_up())
    }

    fn emptied(&mut self) {
        each!(self, engine => engine.emptied());
    }

    #[cfg(test)]
    fn held(&self) -> usize {
        each!(self, engine => engine.held())
    }
}

/// [`MatchEngine`] of a type that has the engine inside: `$each!(self, engine => ...)` calls that.
macro_rules! match_engine_inside {
    ($engine:ty, $each:ident) => {
        impl MatchEngine for $engine {
            #[inline(always)]
            fn post(&mut self, want: Want, value: u64) -> ItemId {
                $each!(self, engine => engine.post(want, value))
            }

            #[inline(always)]
            fn arrive(&mut self, source: u32, tag: u64) -> Option<u64> {
                $each!(self, engine => engine.arrive(source, tag))
            }

            fn arrive_quietly(&mut self, source: u32, tag: u64) -> Option<u64> {
                $each!(self, engine => engine.arrive_quietly(source, tag))
            }

            #[inline(always)]
            fn add_unexpected(&mut self, source: u32, tag: u64, value: u64) {
                $each!(self, engine => engine.add_unexpected(source, tag, value));
            }

            #[inline(always)]
            fn take_unexpected(&mut self, want: &Want) -> Option<u64> {
                $each!(self, engine => engine.take_unexpected(want))
            }

            fn find_unexpected(&mut self, want: &Want) -> Option<u64> {
                $each!(self, engine => engine.find_unexpected(want))
            }

            fn remove_unexpected(
                &mut self,
                source: u32,
                tag: u64,
                which: &mut dyn FnMut(u64) -> bool,
            ) -> Option<u64> {
                $each!(self, engine => engine.remove_unexpected(source, tag, which))
            }

            fn remove_posted(&mut self, item: ItemId, value: u64) -> bool {
                $each!(self, engine => engine.remove_posted(item, value))
            }

            fn remove_posted_where(&mut self, which: &mut dyn FnMut(&Want) -> bool, out: &mut Vec<u64>) {
                $each!(self, engine => engine.remove_posted_where(which, out));
            }

            #[inline(always)]
            fn unexpected_len(&self) -> usize {
                $each!(self, engine => engine.unexpected_len())
            }

            #[inline(always)]
            fn posted_len(&self) -> usize {
                $each!(self, engine => engine.posted_len())
            }

            #[inline(always)]
            fn is_empty(&self) -> bool {
                $each!(self, engine => engine.is_empty())
            }

            fn unexpected_values(&self, out: &mut Vec<u64>) {
                $each!(self, engine => engine.unexpected_values(out));
            }
        }
    };
}
pub(super) use match_engine_inside;

match_engine_inside!(AnyIndexed, each);
