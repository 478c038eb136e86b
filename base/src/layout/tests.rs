//! Layouts against a list of every byte's place.

use proptest::prelude::*;

use super::*;

/// How a layout is put together.
#[derive(Clone, Debug)]
enum Recipe {
    Bytes(usize),
    Repeated(usize, i64, Box<Recipe>),
    Listed(Vec<(i64, usize, Recipe)>),
    Extent(i64, Box<Recipe>),
}

/// The place of every byte of an element, and the extent.
struct Plain(Vec<i64>, i64);

impl Plain {
    fn spanned(places: Vec<i64>) -> Self {
        let low = places.iter().min().copied().unwrap_or(0);
        let high = places.iter().max().map_or(0, |last| last + 1);
        Self(places, high - low)
    }

    /// The places of the bytes of so many elements.
    fn message(&self, count: usize, stride: i64) -> Vec<i64> {
        let of = |i: usize| self.0.iter().map(move |place| place + i as i64 * stride);
        (0..count).flat_map(of).collect()
    }
}

impl Recipe {
    fn plain(&self) -> Plain {
        match self {
            Self::Bytes(n) => Plain((0..*n as i64).collect(), *n as i64),
            Self::Repeated(count, stride, of) => {
                Plain::spanned(of.plain().message(*count, *stride))
            }
            Self::Listed(parts) => Plain::spanned(
                parts
                    .iter()
                    .flat_map(|(at, count, of)| {
                        let of = of.plain();
                        of.message(*count, of.1).into_iter().map(move |place| place + at)
                    })
                    .collect(),
            ),
            Self::Extent(extent, of) => Plain(of.plain().0, *extent),
        }
    }

    fn compiled(&self) -> Layout {
        match self {
            Self::Bytes(n) => Layout::bytes(*n),
            Self::Repeated(count, stride, of) => of.compiled().repeated(*count, *stride),
            Self::Listed(parts) => {
                let parts: Vec<_> =
                    parts.iter().map(|(a, n, of)| (*a, *n, of.compiled())).collect();
                Layout::listed(parts.iter().map(|(at, count, of)| (*at, *count, of)))
            }
            Self::Extent(extent, of) => Ok(of.compiled().with_extent(*extent)),
        }
        .expect("small enough")
    }
}

fn recipes() -> impl Strategy<Value = Recipe> {
    let leaf =
        prop_oneof![Just(1_usize), Just(2), Just(4), Just(8), Just(16), 0..40_usize, 60..90_usize];
    leaf.prop_map(Recipe::Bytes).prop_recursive(4, 24, 4, |inner| {
        let boxed = inner.clone().prop_map(Box::new);
        let stride = prop_oneof![-70..70_i64, Just(1), Just(2), Just(4), Just(8), Just(16)];
        prop_oneof![
            (0..5_usize, stride, boxed.clone()).prop_map(|(n, s, of)| Recipe::Repeated(n, s, of)),
            proptest::collection::vec((-60..200_i64, 0..4_usize, inner), 0..5)
                .prop_map(Recipe::Listed),
            (-100..200_i64, boxed).prop_map(|(extent, of)| Recipe::Extent(extent, of)),
        ]
    })
}

/// Memory for the bytes at some places, and the address from which these count.
struct Memory {
    bytes: Vec<u8>,
    low: i64,
}

impl Memory {
    fn of(places: &[i64], fill: impl Fn(usize) -> u8) -> Self {
        let low = places.iter().min().copied().unwrap_or(0);
        let high = places.iter().max().map_or(low, |last| last + 1);
        Self { bytes: (0..(high - low) as usize).map(fill).collect(), low }
    }

    fn base(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr().wrapping_offset(-self.low as isize)
    }

    fn at(&mut self, place: i64) -> &mut u8 {
        &mut self.bytes[(place - self.low) as usize]
    }
}

fn pattern(i: usize) -> u8 {
    (i.wrapping_mul(0x9e37_79b9) >> 7) as u8
}

/// Cuts `0..len` at these shares of it; the parts in an order that is not theirs.
fn parts(len: usize, cuts: &[usize]) -> Vec<std::ops::Range<usize>> {
    let mut ends: Vec<_> = cuts.iter().map(|cut| cut % (len + 1)).chain([0, len]).collect();
    ends.sort_unstable();
    let mut parts: Vec<_> = ends.windows(2).map(|pair| pair[0]..pair[1]).collect();
    parts.reverse();
    let middle = parts.len() / 2;
    parts.rotate_left(middle);
    parts
}

proptest! {
    #[test]
    fn every_byte_is_where_the_list_has_it(recipe in recipes(), count in 0..5_usize) {
        let (plain, layout) = (recipe.plain(), recipe.compiled());
        let places = plain.message(count, plain.1);
        prop_assert_eq!((layout.size(), layout.extent()), (plain.0.len(), plain.1));
        let bound = |places: &[i64]| match (places.iter().min(), places.iter().max()) {
            (Some(low), Some(high)) => (*low, high + 1),
            _ => (0, 0),
        };
        prop_assert_eq!(layout.true_bounds(), bound(&plain.0));
        let (low, high) = bound(&places);
        prop_assert_eq!(layout.message(count), Ok((places.len(), low, high)));
        for (offset, &place) in places.iter().enumerate() {
            let (at, len) = layout.run(count, offset).expect("it is inside");
            prop_assert_eq!(at, place);
            let same = (0..len).all(|i| places.get(offset + i) == Some(&(place + i as i64)));
            prop_assert!(len > 0 && same, "the piece at {} has other bytes", offset);
        }
        prop_assert_eq!(layout.run(count, places.len()), None);
        let listed: Vec<_> = layout
            .runs(count, 0..places.len())
            .flat_map(|(at, len)| at..at + len as i64)
            .collect();
        prop_assert_eq!(&listed, &places);
        prop_assert_eq!(layout.runs(count, 0..places.len()).count(), match places.len() {
            0 => 0,
            _ => layout.pieces(count),
        });
    }

    #[test]
    fn parts_in_any_order_are_packed_and_unpacked(
        recipe in recipes(),
        count in 0..5_usize,
        cuts in proptest::collection::vec(any::<usize>(), 0..6),
    ) {
        let (plain, layout) = (recipe.plain(), recipe.compiled());
        let places = plain.message(count, plain.1);
        let mut memory = Memory::of(&places, pattern);
        let packed: Vec<u8> = places.iter().map(|&place| *memory.at(place)).collect();
        let mut out = vec![0; packed.len()];
        for part in parts(packed.len(), &cuts) {
            let base = memory.base();
            let to = out[part.clone()].as_mut_ptr();
            // SAFETY: the memory is as large as the bytes at `places` need, and `out` is apart from it.
            let n = unsafe { pack(&layout, base, count, part.start, to, part.len()) };
            prop_assert_eq!(n, part.len());
        }
        prop_assert_eq!(&out, &packed);

        let mut taken = Memory::of(&places, |_| 0xa5);
        let mut expected = Memory::of(&places, |_| 0xa5);
        for part in parts(packed.len(), &cuts) {
            let base = taken.base();
            let from = out[part.clone()].as_ptr();
            // SAFETY: as above.
            let n = unsafe { unpack(&layout, base, count, part.start, from, part.len()) };
            prop_assert_eq!(n, part.len());
            for i in part {
                *expected.at(places[i]) = out[i];
            }
        }
        prop_assert_eq!(taken.bytes, expected.bytes);
    }

    #[test]
    fn what_is_beyond_the_message_is_left_out(recipe in recipes(), count in 0..4_usize, more in 1..40_usize) {
        let (plain, layout) = (recipe.plain(), recipe.compiled());
        let places = plain.message(count, plain.1);
        let mut memory = Memory::of(&places, pattern);
        let mut out = vec![7; places.len() + more];
        let (base, len) = (memory.base(), out.len());
        // SAFETY: as in the test above.
        let n = unsafe { pack(&layout, base, count, 0, out.as_mut_ptr(), len) };
        prop_assert_eq!(n, places.len());
        prop_assert!(out[n..].iter().all(|&byte| byte == 7));
        // SAFETY: as in the test above.
        prop_assert_eq!(unsafe { pack(&layout, base, count, n + more, out.as_mut_ptr(), len) }, 0);
    }

    #[test]
    fn one_layout_is_copied_into_another(
        from in recipes(), to in recipes(), counts in (0..6_usize, 0..6_usize),
    ) {
        let (source, target) = (from.plain(), to.plain());
        let sources = source.message(counts.0, source.1);
        let targets = target.message(counts.1, target.1);
        let mut memory = Memory::of(&sources, pattern);
        let mut taken = Memory::of(&targets, |_| 0xa5);
        let mut expected = Memory::of(&targets, |_| 0xa5);
        for (&at, &place) in sources.iter().zip(&targets) {
            *expected.at(place) = *memory.at(at);
        }
        let (from, to) = (from.compiled(), to.compiled());
        let (base, into) = (memory.base().cast_const(), taken.base());
        // SAFETY: both memories are as large as their bytes need, and apart from each other.
        let n = unsafe { copy_between((&from, base, counts.0), (&to, into, counts.1)) };
        prop_assert_eq!(n, sources.len().min(targets.len()));
        prop_assert_eq!(taken.bytes, expected.bytes);
    }
}

fn vector(count: usize, block: usize, stride: i64) -> Layout {
    Layout::bytes(block).unwrap().repeated(count, stride).unwrap()
}

#[test]
fn regular_layouts_are_small() {
    assert_eq!(vector(1000, 8, 8).one_block(1), Some((0, 8000)));
    assert_eq!(vector(1000, 8, 8).one_block(3), Some((0, 24_000)));
    let rows = vector(1000, 8, 16).repeated(50, 16_000).unwrap();
    assert_eq!((rows.depth(), rows.runs_of_one()), (2, 50_000), "the strides go on");
    let even = Layout::bytes(8).unwrap();
    let even = Layout::listed((0..1000).map(|i| (16 * i, 1, &even))).unwrap();
    assert_eq!((even.depth(), even.runs_of_one()), (2, 1000), "the places follow a rule");
    let two = Layout::bytes(2).unwrap();
    let backwards = Layout::listed([(2, 1, &two), (0, 1, &two)]).unwrap();
    assert_eq!(backwards.one_block(1), None, "the order of the bytes is another");
}

#[test]
fn a_million_elements_take_no_memory_of_their_own() {
    let layout = vector(1_000_000, 8, 16);
    let (bytes, low, high) = layout.message(1000).unwrap();
    assert_eq!((bytes, low, high), (8_000_000_000, 0, 999 * 15_999_992 + 15_999_992));
    let offset = 8_000_000 * 700 + 8 * 123_456 + 3;
    assert_eq!(layout.run(1000, offset), Some((700 * 15_999_992 + 16 * 123_456 + 3, 5)));
}

#[test]
fn what_cannot_be_counted_is_refused() {
    let byte = Layout::bytes(1).unwrap();
    assert_eq!(Layout::bytes(usize::MAX).err(), Some(Overflow));
    assert_eq!(byte.repeated(usize::MAX, 0).err(), Some(Overflow));
    assert_eq!(byte.repeated(3, i64::MAX / 2 + 1).err(), Some(Overflow));
    assert_eq!(Layout::listed([(i64::MAX, 1, &byte)]).err(), Some(Overflow));
    assert_eq!(
        Layout::listed([(i64::MIN, 1, &byte), (i64::MAX - 1, 1, &byte)]).err(),
        Some(Overflow)
    );
    assert_eq!(byte.with_extent(i64::MAX).message(3), Err(Overflow));
    assert_eq!(vector(1 << 40, 1, 2).message(1 << 30), Err(Overflow));
}

#[test]
fn deep_layouts_are_flattened() {
    let byte = Layout::bytes(1).unwrap();
    let mut layout = byte.clone();
    for level in 1..2000_i64 {
        layout = Layout::listed([(0, 1, &layout), (level * level, 1, &byte)]).unwrap();
    }
    assert!(layout.depth() <= 65, "{} levels", layout.depth());
    assert_eq!(layout.size(), 2000);
    for (i, (at, len)) in layout.runs(1, 2..2000).enumerate() {
        assert_eq!((at, len), ((i as i64 + 2).pow(2), 1));
    }
}

#[test]
fn a_deep_layout_of_many_pieces_is_refused_in_the_end() {
    let byte = Layout::bytes(1).unwrap();
    let mut layout = vector(1 << 20, 1, 3);
    let mut levels = 0_i64;
    let end = loop {
        levels += 1;
        assert!(levels < 5000, "it goes on for ever");
        match Layout::listed([(0, 1, &layout), (-levels * levels - 7, 1, &byte)]) {
            Ok(deeper) => layout = deeper,
            Err(end) => break end,
        }
    };
    assert_eq!((end, layout.depth()), (Overflow, 1024));
}
