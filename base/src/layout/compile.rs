//! How layouts are put together, and made small while they are.
//!
//! What is folded: blocks that touch, repeats of blocks that touch, repeats of repeats whose strides go
//! on, parts of a list that are alike and evenly apart. A layout that is deep becomes one list of its
//! pieces, so that no walk through it needs much of a stack.

use std::sync::Arc;

use super::{Kind, Layout, Node, Overflow, Part, Piece, Placed};

/// Levels beyond which a layout is flattened, if it has no more than [`FLAT`] pieces.
const DEEP: u32 = 64;

/// Pieces of the largest list that a layout is flattened to.
const FLAT: usize = 1 << 16;

/// Levels beyond which a layout that cannot be flattened is refused: walks through it take stack.
const DEEPEST: u32 = 1024;

/// Most bytes of a message: the marks of buffers' handles take the bits above.
const MOST: usize = 1 << (usize::BITS - 2);

/// A size that was computed with checks, if a message may have it.
pub(super) fn counted(size: Option<usize>) -> Result<usize, Overflow> {
    size.filter(|&size| size < MOST).ok_or(Overflow)
}

/// Where the last of `count` things lies that are `stride` apart.
pub(super) fn last(count: usize, stride: i64) -> Result<i64, Overflow> {
    let steps = i64::try_from(count.saturating_sub(1)).map_err(|_| Overflow)?;
    steps.checked_mul(stride).ok_or(Overflow)
}

fn block(size: usize) -> Arc<Node> {
    let high = size as i64;
    Arc::new(Node { kind: Kind::Block, size, runs: 1, low: 0, high, depth: 1 })
}

impl Placed {
    /// The same further on.
    fn shifted(&self, by: i64) -> Result<Self, Overflow> {
        let at = self.at.checked_add(by).ok_or(Overflow)?;
        at.checked_add(self.node.low).ok_or(Overflow)?;
        at.checked_add(self.node.high).ok_or(Overflow)?;
        Ok(Self { at, node: self.node.clone() })
    }

    fn block(&self) -> Option<usize> {
        matches!(self.node.kind, Kind::Block).then_some(self.node.size)
    }

    /// Whether two lie alike, but for the place.
    fn is_like(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.node, &other.node)
            || self.block().is_some_and(|size| other.block() == Some(size))
    }
}

/// `count` of a node, `stride` apart.
fn repeat(count: usize, stride: i64, of: Placed) -> Result<Placed, Overflow> {
    if count == 1 {
        return Ok(of);
    }
    let size = counted(of.node.size.checked_mul(count))?;
    let end = last(count, stride)?;
    if let Some(len) = of.block()
        && usize::try_from(stride) == Ok(len)
    {
        return Placed { at: of.at, node: block(size) }.shifted(0);
    }
    if let Kind::Repeat { count: inner, stride: step, of: within } = &of.node.kind
        && Some(stride) == last(*inner, *step)?.checked_add(*step)
    {
        // The strides of the inner repeat go on in the next one.
        let all = inner.checked_mul(count).ok_or(Overflow)?;
        return repeat(all, *step, within.shifted(of.at)?);
    }
    let at = of.at;
    let of = Placed { at: 0, node: of.node };
    let low = of.node.low.checked_add(end.min(0)).ok_or(Overflow)?;
    let high = of.node.high.checked_add(end.max(0)).ok_or(Overflow)?;
    let runs = of.node.runs.saturating_mul(count);
    let depth = of.node.depth + 1;
    let node = Node { kind: Kind::Repeat { count, stride, of }, size, runs, low, high, depth };
    flattened(Placed { at: 0, node: Arc::new(node) })?.shifted(at)
}

/// Parts one after the other in the message.
fn list(parts: Vec<Placed>) -> Result<Option<Placed>, Overflow> {
    let mut joined: Vec<Placed> = Vec::with_capacity(parts.len());
    for part in parts {
        if let Some(before) = joined.last_mut()
            && let (Some(size), Some(more)) = (before.block(), part.block())
            && before.at.checked_add(size as i64) == Some(part.at)
        {
            let both = block(counted(size.checked_add(more))?);
            *before = Placed { at: before.at, node: both }.shifted(0)?;
        } else {
            joined.push(part);
        }
    }
    let Some(first) = joined.first() else { return Ok(None) };
    if joined.len() == 1 {
        return Ok(joined.pop());
    }
    if let Some(stride) = joined[1].at.checked_sub(first.at)
        && joined.windows(2).all(|pair| {
            pair[0].is_like(&pair[1]) && pair[0].at.checked_add(stride) == Some(pair[1].at)
        })
    {
        return repeat(joined.len(), stride, first.clone()).map(Some);
    }
    let (mut end, mut runs, mut depth) = (0_usize, 0_usize, 0);
    let (mut low, mut high) = (i64::MAX, i64::MIN);
    let pieces = joined.iter().all(|part| part.block().is_some());
    let mut list = Vec::with_capacity(if pieces { 0 } else { joined.len() });
    let mut flat = Vec::with_capacity(if pieces { joined.len() } else { 0 });
    for placed in joined {
        let node = &placed.node;
        end = counted(end.checked_add(node.size))?;
        runs = runs.saturating_add(node.runs);
        // Every part was placed by `shifted`, which checks both sums.
        (low, high) = (low.min(placed.at + node.low), high.max(placed.at + node.high));
        depth = depth.max(node.depth);
        if pieces {
            flat.push(Piece { at: placed.at, end });
        } else {
            list.push(Part { placed, end });
        }
    }
    let kind = if pieces { Kind::Pieces(flat.into()) } else { Kind::List(list.into()) };
    let node = Node { kind, size: end, runs, low, high, depth: depth + 1 };
    flattened(Placed { at: 0, node: Arc::new(node) }).map(Some)
}

/// The same as one list of its pieces, if it has too many levels.
fn flattened(placed: Placed) -> Result<Placed, Overflow> {
    if placed.node.depth <= DEEP || placed.node.runs > FLAT {
        return if placed.node.depth <= DEEPEST { Ok(placed) } else { Err(Overflow) };
    }
    let whole = Layout { node: Some(placed), extent: 0 };
    let blocks = whole.runs(1, 0..whole.size());
    let blocks: Result<Vec<_>, _> =
        blocks.map(|(at, len)| Placed { at, node: block(len) }.shifted(0)).collect();
    // There are bytes, so there is a piece.
    list(blocks?)?.ok_or(Overflow)
}

impl Layout {
    /// `size` bytes in one piece.
    ///
    /// # Errors
    /// When that is more than a message may have.
    pub fn bytes(size: usize) -> Result<Self, Overflow> {
        let size = counted(Some(size))?;
        let node = (size > 0).then(|| Placed { at: 0, node: block(size) });
        Ok(Self { node, extent: size as i64 })
    }

    /// `count` elements, `stride` bytes apart. The extent is from the lowest byte to the highest, until
    /// [`with_extent`](Self::with_extent) gives another.
    ///
    /// # Errors
    /// When its size or bounds cannot be counted.
    pub fn repeated(&self, count: usize, stride: i64) -> Result<Self, Overflow> {
        let node = match &self.node {
            Some(placed) if count > 0 => Some(repeat(count, stride, placed.clone())?),
            _ => None,
        };
        Self { node, extent: 0 }.spanned()
    }

    /// Parts one after the other: each a place, a number of elements, and what these are. The elements of
    /// a part are their extent apart. Parts without bytes are nothing. The extent is as in
    /// [`repeated`](Self::repeated).
    ///
    /// # Errors
    /// When its size or bounds cannot be counted.
    pub fn listed<'a>(
        parts: impl IntoIterator<Item = (i64, usize, &'a Layout)>,
    ) -> Result<Self, Overflow> {
        let mut placed: Vec<Placed> = Vec::new();
        // What the part before was made of, and became: most lists have many that are alike.
        let mut before: Option<(*const Self, usize, Placed)> = None;
        for (at, count, of) in parts {
            if let Some(node) = &of.node
                && count > 0
            {
                let repeated = match before {
                    Some((layout, number, ref same)) if layout == of && number == count => {
                        same.clone()
                    }
                    _ => repeat(count, of.extent, node.clone())?,
                };
                placed.push(repeated.shifted(at)?);
                before = Some((of, count, repeated));
            }
        }
        Self { node: list(placed)?, extent: 0 }.spanned()
    }

    /// The same bytes, with another distance from element to element.
    #[must_use]
    pub fn with_extent(&self, extent: i64) -> Self {
        Self { node: self.node.clone(), extent }
    }

    fn spanned(self) -> Result<Self, Overflow> {
        let (low, high) = self.true_bounds();
        let extent = high.checked_sub(low).ok_or(Overflow)?;
        Ok(Self { extent, ..self })
    }
}
