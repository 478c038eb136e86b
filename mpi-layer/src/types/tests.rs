//! Types of every constructor against what the standard defines them to be: a list of basic elements and
//! their places, and bounds that were given.

use bowline_base::layout::{pack, unpack};
use proptest::prelude::*;

use super::*;

/// A type as a list.
#[derive(Clone, Debug, Default)]
struct Naive {
    map: Vec<(Basic, i64)>,
    /// Lower and upper bounds that were given.
    given: Option<(i64, i64)>,
    /// The end of the last element that was added as a whole.
    end: Option<i64>,
}

impl Naive {
    fn size(&self) -> usize {
        self.map.iter().map(|(basic, _)| usize::from(basic.size)).sum()
    }

    fn true_lb(&self) -> i64 {
        self.map.iter().map(|&(_, at)| at).min().unwrap_or(0)
    }

    fn true_ub(&self) -> i64 {
        self.map.iter().map(|&(basic, at)| at + i64::from(basic.size)).max().unwrap_or(0)
    }

    fn lb(&self) -> i64 {
        self.given.map_or(self.true_lb(), |(lb, _)| lb)
    }

    fn extent(&self) -> i64 {
        if let Some((lb, ub)) = self.given {
            return ub - lb;
        }
        let align = self.map.iter().map(|(basic, _)| i64::from(basic.align())).max().unwrap_or(1);
        let end = self.end.map_or(self.true_ub(), |end| end.max(self.true_ub()));
        let mut extent = end - self.true_lb();
        while extent % align != 0 {
            extent += 1;
        }
        extent
    }

    /// Adds what `other` has, `by` further on.
    fn add(&mut self, other: &Self, by: i64) {
        self.map.extend(other.map.iter().map(|&(basic, at)| (basic, at + by)));
        if let Some((lb, ub)) = other.given {
            let (lb, ub) = (lb + by, ub + by);
            let before = self.given.unwrap_or((lb, ub));
            self.given = Some((before.0.min(lb), before.1.max(ub)));
        } else if !other.map.is_empty() {
            let end = other.lb() + other.extent() + by;
            self.end = Some(self.end.map_or(end, |before| before.max(end)));
        }
    }

    /// Adds a block.
    fn block(&mut self, at: i64, count: usize, of: &Self) {
        (0..count).for_each(|nth| self.add(of, at + nth as i64 * of.extent()));
    }

    /// The places of the bytes of a message, in its order.
    fn places(&self, count: usize) -> Vec<i64> {
        let mut all = Self::default();
        all.block(0, count, self);
        all.map.iter().flat_map(|&(basic, at)| at..at + i64::from(basic.size)).collect()
    }
}

/// How a type is made.
#[derive(Clone, Debug)]
enum Recipe {
    Named(u16),
    Contiguous(usize, Box<Self>),
    Strided(usize, i64, usize, Box<Self>),
    Indexed(Vec<(i64, usize)>, Box<Self>),
    Struct(Vec<(i64, usize, Self)>),
    Resized(i64, i64, Box<Self>),
    Subarray(Vec<(usize, usize, usize)>, bool, Box<Self>),
    Darray(Vec<(usize, usize, usize)>, usize, bool, Box<Self>),
    Dup(Box<Self>),
}

fn recipes() -> impl Strategy<Value = Recipe> {
    // char, short, int, double, long double, pairs, complex.
    let named = prop::sample::select(vec![
        0x243_u16, 0x208, 0x209, 0x214, 0x220, 0x229, 0x22c, 0x22d, 0x228, 0x216,
    ]);
    named.prop_map(Recipe::Named).prop_recursive(4, 24, 3, |inner| {
        let boxed = inner.clone().prop_map(Box::new);
        let blocks = prop::collection::vec((-40..60_i64, 0..4_usize), 0..5);
        let parts = prop::collection::vec((-40..60_i64, 0..3_usize, inner.clone()), 0..4);
        let part = (1..4_usize, 0..3_usize, 0..3_usize);
        let part = part.prop_map(|(subsize, start, more)| (subsize + start + more, subsize, start));
        let dealt = (1..6_usize, 0..4_usize, 1..4_usize);
        let dealt = prop::collection::vec(dealt, 1..3);
        prop_oneof![
            (0..4_usize, boxed.clone()).prop_map(|(n, of)| Recipe::Contiguous(n, of)),
            (0..4_usize, -50..50_i64, 0..4_usize, boxed.clone())
                .prop_map(|(n, stride, block, of)| Recipe::Strided(n, stride, block, of)),
            (blocks, boxed.clone()).prop_map(|(blocks, of)| Recipe::Indexed(blocks, of)),
            parts.prop_map(Recipe::Struct),
            (-30..30_i64, -30..60_i64, boxed.clone())
                .prop_map(|(lb, extent, of)| Recipe::Resized(lb, extent, of)),
            (prop::collection::vec(part, 1..4), any::<bool>(), boxed.clone())
                .prop_map(|(parts, c, of)| Recipe::Subarray(parts, c, of)),
            (dealt, any::<prop::sample::Index>(), any::<bool>(), boxed.clone()).prop_map(
                |(dealt, rank, c, of)| {
                    let size = dealt.iter().map(|&(_, _, processes)| processes).product();
                    Recipe::Darray(dealt, rank.index(size), c, of)
                }
            ),
            boxed.prop_map(Recipe::Dup),
        ]
    })
}

fn order(c: bool) -> Order {
    if c { Order::C } else { Order::Fortran }
}

/// Adds the elements of an array whose indices `wanted` has, in order of memory.
fn array(sizes: &[usize], c: bool, of: &Naive, wanted: impl Fn(&[usize]) -> bool) -> Naive {
    let total: usize = sizes.iter().product();
    let mut made = Naive::default();
    for nth in 0..total {
        let mut rest = nth;
        let mut index = vec![0; sizes.len()];
        let mut dimensions: Vec<usize> = (0..sizes.len()).collect();
        if c {
            dimensions.reverse();
        }
        for at in dimensions {
            index[at] = rest % sizes[at];
            rest /= sizes[at];
        }
        if wanted(&index) {
            made.add(of, nth as i64 * of.extent());
        }
    }
    // Its bounds are those of the array, whatever those of the elements are.
    made.given = Some((0, total as i64 * of.extent()));
    made
}

/// Both forms of a type.
fn make(recipe: &Recipe) -> (Type, Naive) {
    let mut list = Naive::default();
    let made = match recipe {
        &Recipe::Named(value) => {
            let named = Type::predefined(value).unwrap();
            match named.pair() {
                Some(pair) => list.map.extend([(pair.value, 0), (pair.index, pair.offset as i64)]),
                None => list.map.push((named.basic().unwrap(), 0)),
            }
            Ok(named)
        }
        Recipe::Contiguous(count, of) => {
            let (of, naive) = make(of);
            list.block(0, *count, &naive);
            Type::contiguous(*count, &of)
        }
        &Recipe::Strided(count, stride, block, ref of) => {
            let (of, naive) = make(of);
            (0..count).for_each(|nth| list.block(nth as i64 * stride, block, &naive));
            Type::strided(count, stride, block, &of)
        }
        Recipe::Indexed(blocks, of) => {
            let (of, naive) = make(of);
            blocks.iter().for_each(|&(at, count)| list.block(at, count, &naive));
            Type::blocks(blocks.iter().map(|&(at, count)| TypeBlock { at, count, of: &of }))
        }
        Recipe::Struct(parts) => {
            let made: Vec<_> = parts.iter().map(|(_, _, of)| make(of)).collect();
            for (&(at, count, _), (_, naive)) in parts.iter().zip(&made) {
                list.block(at, count, naive);
            }
            let blocks = parts.iter().zip(&made);
            Type::blocks(blocks.map(|(&(at, count, _), (of, _))| TypeBlock { at, count, of }))
        }
        &Recipe::Resized(lb, extent, ref of) => {
            let (of, naive) = make(of);
            list = Naive { given: Some((lb, lb + extent)), ..naive };
            of.resized(lb, extent)
        }
        Recipe::Subarray(parts, c, of) => {
            let (of, naive) = make(of);
            let sizes: Vec<_> = parts.iter().map(|&(size, _, _)| size).collect();
            list = array(&sizes, *c, &naive, |index| {
                let mut both = index.iter().zip(parts);
                both.all(|(&at, &(_, subsize, start))| (start..start + subsize).contains(&at))
            });
            let part = |&(size, subsize, start): &(usize, usize, usize)| DimensionPart {
                size,
                subsize,
                start,
            };
            Type::subarray(&parts.iter().map(part).collect::<Vec<_>>(), order(*c), &of)
        }
        Recipe::Darray(dealt, rank, c, of) => {
            let (of, naive) = make(of);
            let sizes: Vec<_> = dealt.iter().map(|&(size, _, _)| size).collect();
            let mut place = vec![0; dealt.len()];
            let mut rest = *rank;
            for (at, &(_, _, processes)) in dealt.iter().enumerate().rev() {
                place[at] = rest % processes;
                rest /= processes;
            }
            // A block of 0 stands for one block to each process.
            let length = |(size, block, processes): (usize, usize, usize)| match block {
                0 => size.div_ceil(processes),
                block => block,
            };
            list = array(&sizes, *c, &naive, |index| {
                (0..dealt.len()).all(|at| index[at] / length(dealt[at]) % dealt[at].2 == place[at])
            });
            let one = |&(size, block, processes): &(usize, usize, usize)| {
                let how = match block {
                    0 => Distribution::Block(None),
                    block => Distribution::Cyclic(block),
                };
                Dealt { size, how, processes }
            };
            let size = dealt.iter().map(|&(_, _, processes)| processes).product();
            let dimensions: Vec<_> = dealt.iter().map(one).collect();
            Type::darray(size, *rank, &dimensions, order(*c), &of)
        }
        Recipe::Dup(of) => {
            let (of, naive) = make(of);
            list = naive;
            Ok(of.duplicate())
        }
    };
    (made.unwrap(), list)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]
    #[test]
    fn any_type_is_what_its_list_says(
        recipe in recipes(),
        count in 0..4_usize,
        cut in any::<prop::sample::Index>(),
    ) {
        let (made, list) = make(&recipe);
        prop_assume!(list.map.len() < 4000);
        prop_assert_eq!(made.size(), list.size());
        prop_assert_eq!((made.lb(), made.extent()), (list.lb(), list.extent()));
        prop_assert_eq!(made.true_lb(), list.true_lb());
        prop_assert_eq!(made.true_extent(), list.true_ub() - list.true_lb());

        let mut elements = Vec::new();
        made.elements().each_run(|basic, run| elements.extend(std::iter::repeat_n(basic, run)));
        let expected: Vec<Basic> = list.map.iter().map(|&(basic, _)| basic).collect();
        prop_assert_eq!(&elements, &expected);
        prop_assert_eq!(made.elements().count(), expected.len());

        // A message that ends anywhere.
        let places = list.places(count);
        let end = cut.index(places.len() + 1);
        let (mut whole, mut rest) = (0, end);
        for basic in expected.iter().cycle().take(expected.len() * count) {
            if rest < usize::from(basic.size) {
                break;
            }
            whole += 1;
            rest -= usize::from(basic.size);
        }
        prop_assert_eq!(made.elements().in_bytes(end as u64), (whole, rest as u64));
        prop_assert_eq!(made.elements().bytes_of(whole), Some((end - rest) as u64));

        let (low, high) = places.iter().fold((0, 0), |(low, high), &at| (low.min(at), high.max(at + 1)));
        let mut memory: Vec<u8> = (low..high).map(|at| (at * 7 % 251) as u8).collect();
        let base = memory.as_mut_ptr().wrapping_offset(-low as isize);
        let mut packed = vec![0; places.len() - end];
        // SAFETY: all places of the message are inside of the memory, and the buffer is another one.
        let n = unsafe {
            pack(made.layout(), base, count, end, packed.as_mut_ptr(), packed.len())
        };
        prop_assert_eq!(n, packed.len());
        let found: Vec<u8> = places[end..].iter().map(|&at| memory[(at - low) as usize]).collect();
        prop_assert_eq!(&packed, &found);

        // What comes is written to the places of the message, in order, and nowhere else.
        let came: Vec<u8> = (0..end).map(|at| (at * 13 % 241) as u8).collect();
        let mut expected = memory.clone();
        for (&at, &byte) in places.iter().zip(&came) {
            expected[(at - low) as usize] = byte;
        }
        let base = memory.as_mut_ptr().wrapping_offset(-low as isize);
        // SAFETY: as above.
        let n = unsafe { unpack(made.layout(), base, count, 0, came.as_ptr(), came.len()) };
        prop_assert_eq!(n, came.len());
        prop_assert_eq!(memory, expected);
    }
}

#[test]
fn deep_types_are_flat_or_refused() {
    // Elements in an order that no repeat can express, a level more each time.
    let (int, float) = (Type::predefined(0x209).unwrap(), Type::predefined(0x210).unwrap());
    let mut made = int.clone();
    for level in 0..3000 {
        let other = if level % 2 == 0 { &float } else { &int };
        let parts = [
            TypeBlock { at: 0, count: 1, of: &made },
            TypeBlock { at: made.extent(), count: 1, of: other },
        ];
        made = Type::blocks(parts.into_iter()).unwrap();
    }
    assert_eq!((made.size(), made.elements().count()), (12_004, 3001));
    assert_eq!(made.elements().in_bytes(4 * 777 + 1), (777, 1));
    assert!(made.is_dense(), "it is one block");
    let mut runs = 0;
    made.elements().each_run(|_, count| runs += count);
    assert_eq!(runs, 3001);

    // Too many runs to be flattened, and refused before a walk takes the stack.
    let pair = [TypeBlock { at: 0, count: 1, of: &int }, TypeBlock { at: 4, count: 1, of: &float }];
    let pair = Type::blocks(pair.into_iter()).unwrap();
    let mut grown = Type::contiguous(40_000, &pair).unwrap();
    let refused = (0..2000).any(|level| {
        let other = if level % 2 == 0 { &int } else { &float };
        let end = grown.extent();
        let parts =
            [TypeBlock { at: 0, count: 1, of: &grown }, TypeBlock { at: end, count: 1, of: other }];
        let next = Type::blocks(parts.into_iter());
        let failed = next.is_err();
        next.map_or_else(|error| assert_eq!(error, TypeError::Overflow), |next| grown = next);
        failed
    });
    assert!(refused);
}

#[test]
fn pairs_have_their_gaps() {
    // FLOAT_INT, DOUBLE_INT, LONG_INT, 2INT, SHORT_INT, LONG_DOUBLE_INT
    let expected = [
        (0x228, 8, 8, 4),
        (0x229, 12, 16, 8),
        (0x22a, 12, 16, 8),
        (0x22b, 8, 8, 4),
        (0x22c, 6, 8, 4),
        (0x22d, 20, 32, 16),
    ];
    for (value, size, extent, offset) in expected {
        let pair = Type::predefined(value).unwrap();
        assert_eq!((pair.size(), pair.extent()), (size, extent), "{value:#x}");
        assert_eq!(pair.pair().unwrap().offset, offset, "{value:#x}");
        assert_eq!(pair.is_dense(), size as i64 == extent, "{value:#x}");
        assert_eq!(pair.elements().count(), 2, "{value:#x}");
        assert_eq!(pair.lb(), 0);
    }
}

#[test]
fn the_bits_of_a_value_are_its_size() {
    for &value in VALUES {
        let of_its_own = Type::predefined(value).unwrap();
        if (0x240..0x300).contains(&value) {
            assert_eq!(of_its_own.size(), 1 << (value >> 3 & 7), "{value:#x}");
        }
        let dense = dense_size(value.into());
        assert_eq!(dense > 0, of_its_own.is_dense(), "{value:#x}");
        if dense > 0 {
            assert_eq!(dense, of_its_own.size(), "{value:#x}");
            assert!(of_its_own.basic().is_some() || of_its_own.pair().is_some());
        }
        assert!(of_its_own.is_committed());
        assert_eq!(of_its_own.abi(), Some(value));
    }
    for none in [0, 0x200, 0x206, 0x242, 0x2ff, 0x1000, usize::MAX] {
        assert_eq!(dense_size(none), 0, "{none:#x}");
    }
    assert!(Type::predefined(0x200).is_none());
}
