//! Parts of arrays of several dimensions.

use bowline_base::layout::{Layout, Overflow};

use super::bounds::Bounds;
use super::build::TypeError;
use super::{Type, TypeSignature};

/// Which index of an array runs fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The last, as in C.
    C,
    /// The first, as in Fortran.
    Fortran,
}

/// How a dimension of an array is dealt out to processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// A block to each process, of so many elements or as few as suffice.
    Block(Option<usize>),
    /// Blocks of so many elements to one process after the other.
    Cyclic(usize),
    /// All to one process.
    None,
}

/// A dimension of an array that is dealt out.
#[derive(Clone, Copy, Debug)]
pub struct Dealt {
    /// Elements of the array in it.
    pub size: usize,
    /// How.
    pub how: Distribution,
    /// To how many processes.
    pub processes: usize,
}

/// A part of a dimension of an array.
#[derive(Clone, Copy, Debug)]
pub struct DimensionPart {
    /// Elements of the array in it.
    pub size: usize,
    /// Elements of the part.
    pub subsize: usize,
    /// Where the part begins.
    pub start: usize,
}

/// The part of an array so far, from its fastest dimension on.
struct Growing {
    layout: Layout,
    count: usize,
    /// From one element of the next dimension to the next.
    stride: i64,
}

impl Growing {
    fn new(of: &Type) -> Self {
        Self { layout: (**of.layout()).clone(), count: 1, stride: of.extent() }
    }

    /// Adds a dimension of `size`, of which there are these parts: where each begins, and its elements.
    fn add(
        &mut self,
        size: usize,
        parts: &[(Layout, usize)],
        count: usize,
    ) -> Result<(), Overflow> {
        let places = parts.iter().map(|(layout, start)| Ok((self.place(*start)?, 1, layout)));
        let places: Result<Vec<_>, Overflow> = places.collect();
        self.layout = Layout::listed(places?)?;
        self.count = self.count.checked_mul(count).ok_or(Overflow)?;
        self.stride = self.place(size)?;
        Ok(())
    }

    fn place(&self, index: usize) -> Result<i64, Overflow> {
        let index = i64::try_from(index).map_err(|_| Overflow)?;
        self.stride.checked_mul(index).ok_or(Overflow)
    }

    fn row(&self, count: usize) -> Result<Layout, Overflow> {
        self.layout.repeated(count, self.stride)
    }

    /// The part as a type whose bounds are those of the array.
    fn into_type(self, of: &Type) -> Result<Type, TypeError> {
        let bounds = Bounds::given(0, self.stride, of.0.bounds.align)?;
        let count = if self.layout.size() > 0 { self.count } else { 0 };
        let elements: TypeSignature = of.elements().repeated(count)?;
        Ok(Type::of_parts(&self.layout, elements, bounds))
    }
}

/// The dimensions from the fastest on.
fn from_fastest<T>(dimensions: &[T], order: Order) -> Box<dyn Iterator<Item = &T> + '_> {
    match order {
        Order::C => Box::new(dimensions.iter().rev()),
        Order::Fortran => Box::new(dimensions.iter()),
    }
}

impl Type {
    /// A part of an array of elements of this type. (MPI: Datatypes, "Subarray Datatype Constructor".)
    ///
    /// # Errors
    /// When a part is not inside of its dimension or empty, or the type cannot be counted.
    pub fn subarray(parts: &[DimensionPart], order: Order, of: &Self) -> Result<Self, TypeError> {
        let mut growing = Growing::new(of);
        for &DimensionPart { size, subsize, start } in from_fastest(parts, order) {
            if subsize < 1 || subsize > size || start > size - subsize {
                let text = "a part of the array is empty, or not inside of the array";
                return Err(TypeError::Invalid(text));
            }
            let row = growing.row(subsize)?;
            growing.add(size, &[(row, start)], subsize)?;
        }
        growing.into_type(of)
    }

    /// What process `rank` has of an array that is dealt out to a grid of processes.
    /// (MPI: Datatypes, "Distributed Array Datatype Constructor".)
    ///
    /// # Errors
    /// When the distribution is none, or the type cannot be counted.
    pub fn darray(
        size: usize,
        rank: usize,
        dimensions: &[Dealt],
        order: Order,
        of: &Self,
    ) -> Result<Self, TypeError> {
        let grid = dimensions.iter().try_fold(1_usize, |all, one| all.checked_mul(one.processes));
        if grid != Some(size) || rank >= size {
            let text =
                "the grid of processes has not as many as there are, or the rank is not in it";
            return Err(TypeError::Invalid(text));
        }
        // The last index of the grid runs fastest, whatever the array's order.
        let mut rest = rank;
        let mut places = vec![0; dimensions.len()];
        for (place, dealt) in places.iter_mut().zip(dimensions).rev() {
            (*place, rest) = (rest % dealt.processes, rest / dealt.processes);
        }
        let dealt: Vec<_> = dimensions.iter().copied().zip(places).collect();
        let mut growing = Growing::new(of);
        for &(Dealt { size, how, processes }, place) in from_fastest(&dealt, order) {
            let block = block(size, how, processes)?;
            // Of each round of blocks one is ours; the last may be shorter.
            let round = block.checked_mul(processes).ok_or(Overflow)?;
            let first = block * place;
            let behind = size.saturating_sub(first);
            let (rounds, over) = (behind / round, behind % round);
            let whole = rounds + usize::from(over >= block);
            let short = if over < block { over } else { 0 };
            let stride = growing.place(round)?;
            let row = growing.row(block)?.repeated(whole, stride)?;
            let end = growing.row(short)?;
            // Where there is no such block, its place is not used.
            let end_at = if short > 0 { first + rounds * round } else { 0 };
            let count = whole * block + short;
            growing.add(size, &[(row, if whole > 0 { first } else { 0 }), (end, end_at)], count)?;
        }
        growing.into_type(of)
    }
}

/// The elements of a block.
fn block(size: usize, how: Distribution, processes: usize) -> Result<usize, TypeError> {
    match how {
        Distribution::None if processes != 1 => {
            Err(TypeError::Invalid("a dimension that is not dealt out has several processes"))
        }
        Distribution::None => Ok(size.max(1)),
        Distribution::Block(None) => Ok(size.div_ceil(processes).max(1)),
        Distribution::Block(Some(block))
            if block.checked_mul(processes).is_none_or(|all| all < size) =>
        {
            Err(TypeError::Invalid("the blocks of a dimension are too short for the array"))
        }
        Distribution::Block(Some(0)) | Distribution::Cyclic(0) => {
            Err(TypeError::Invalid("a block of a dimension has no elements"))
        }
        Distribution::Block(Some(block)) | Distribution::Cyclic(block) => Ok(block),
    }
}
