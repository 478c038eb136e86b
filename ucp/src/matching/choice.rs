//! Which engine a space has.

use bowline_base::config::Choice as _;

use super::any::{AnyIndexed, match_engine_inside};
use super::{
    ArrayIndex, CubeIndex, Grown, Growth, HashIndex, Index as _, Indexed, ItemId, MatchEngine,
    TreeIndex, TreeShape, Want,
};

bowline_base::choice! {
    /// The engines by name. All of them search a list as long as its searches are short; what they
    /// are called by is what follows.
    pub enum EngineKind {
        /// A hash of rank and tag, when long searches have cost more than it.
        Auto = "auto",
        /// A list, whatever it costs.
        List = "list",
        /// A slot for each rank.
        Array = "array",
        /// The four-dimensional index.
        FourD = "four_d",
        /// A hash of rank and tag.
        Hashed = "hashed",
        /// An index of as many dimensions as pay.
        Nd = "nd",
    }
}

impl EngineKind {
    /// All of them.
    pub const ALL: &[Self] = Self::VALUES;

    /// Its name, as the setting `BOWLINE_MATCHING` has it.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// What it means for a communicator of `ranks` ranks, in words for people.
    pub fn explain(self, ranks: u32) -> String {
        let index = match self {
            Self::List => return "lists, searched from the oldest entry".to_owned(),
            Self::Auto => {
                return "a list; when long searches have cost more than it, a hash of rank and tag"
                    .to_owned();
            }
            Self::Array => {
                let bytes = ArrayIndex::bytes_for(ranks);
                format!("a slot for each of {ranks} ranks, {bytes} bytes")
            }
            Self::FourD => {
                let span = 1u32 << CubeIndex::bits_for(ranks);
                format!("four dimensions of rank, {span} wide")
            }
            Self::Hashed => "a hash of rank and tag".to_owned(),
            Self::Nd => {
                let TreeShape { dimensions, bits } = TreeShape::for_ranks(ranks);
                let ranks = TreeShape::LEAF_RANKS;
                format!("{dimensions} dimensions of blocks of {ranks} ranks, {} wide", 1u32 << bits)
            }
        };
        format!("a list; from its first long search on, {index}")
    }
}

/// The engine of a space.
#[derive(Debug)]
#[repr(C)]
pub struct Engine {
    grown: Grown<AnyIndexed>,
    kind: EngineKind,
}

impl Engine {
    /// An empty engine for a communicator of `ranks` ranks; messages of others are served as well.
    pub fn new(kind: EngineKind, ranks: u32) -> Self {
        let growth = if kind == EngineKind::Auto { Growth::Weighed } else { Growth::Early };
        Self::growing(kind, ranks, growth)
    }

    /// The same without the list: what its name says from the first entry on, to compare with.
    pub fn without_list(kind: EngineKind, ranks: u32) -> Self {
        Self::growing(kind, ranks, Growth::Always)
    }

    fn growing(kind: EngineKind, ranks: u32, growth: Growth) -> Self {
        let (make, break_even): (fn(u32) -> AnyIndexed, u32) = match kind {
            EngineKind::List => return Self { grown: Grown::list(), kind },
            EngineKind::Auto | EngineKind::Hashed => {
                (|_| AnyIndexed::Hashed(Indexed::new(HashIndex::new())), HashIndex::BREAK_EVEN)
            }
            EngineKind::Array => {
                (|n| AnyIndexed::Array(Indexed::new(ArrayIndex::new(n))), ArrayIndex::BREAK_EVEN)
            }
            EngineKind::FourD => {
                (|n| AnyIndexed::FourD(Indexed::new(CubeIndex::new(n))), CubeIndex::BREAK_EVEN)
            }
            EngineKind::Nd => {
                (|n| AnyIndexed::Nd(Indexed::new(TreeIndex::new(n))), TreeIndex::BREAK_EVEN)
            }
        };
        let grown = match growth {
            Growth::Always => Grown::new(make(ranks), growth),
            _ => Grown::growing(make, ranks, break_even, growth),
        };
        Self { grown, kind }
    }

    /// An empty engine in its place, which has grown as many times.
    pub(crate) fn renewed(&self, ranks: u32) -> Self {
        let Self { grown, kind } = Self::new(self.kind, ranks);
        Self { grown: grown.grown_before(self.growths() as u32), kind }
    }

    /// Whether a receive can be posted without a search: no message waits, and there is no index.
    #[inline(always)]
    pub(crate) fn is_plain(&self) -> bool {
        self.grown.is_plain()
    }

    /// [`MatchEngine::post`] then, without a call in it.
    #[inline(always)]
    pub(crate) fn post_plain(&mut self, want: Want, value: u64) -> ItemId {
        self.grown.post_plain(want, value)
    }

    /// [`MatchEngine::arrive`] where there is no index and the oldest receive fits; `None` says nothing of the
    /// others.
    #[inline(always)]
    pub(crate) fn arrive_first(&mut self, source: u32, tag: u64) -> Option<u64> {
        self.grown.arrive_first(source, tag)
    }

    /// Entries for which there is memory.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.grown.held()
    }

    /// How many times it has grown its index.
    pub const fn growths(&self) -> u64 {
        self.grown.growths()
    }

    /// Its kind.
    pub const fn kind(&self) -> EngineKind {
        self.kind
    }
}

macro_rules! grown {
    ($of:expr, $engine:ident => $do:expr) => {{
        let Engine { grown: $engine, .. } = $of;
        $do
    }};
}

match_engine_inside!(Engine, grown);
