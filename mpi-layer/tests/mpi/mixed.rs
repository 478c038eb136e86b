//! Exchanges of blocks of different types, and lists of requests of different kinds.

use bowline_mpi::{
    AnyRequest, Block, BlockMut, MpiError, OwnedBlock, Request, Sum, test_all, wait_all, wait_any,
};

use super::start::{both_ways, ranks};

/// What rank `from` sends to rank `to`: bytes, words or numbers.
#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Bytes(Vec<u8>),
    Words(Vec<u64>),
    Numbers(Vec<f32>),
}

impl Piece {
    fn new(from: usize, to: usize, round: usize) -> Self {
        let seed = from * 7 + to * 3;
        let len = [0, 1, 9, 3000][seed % 4];
        match seed % 3 {
            0 => Self::Bytes(vec![(from + round) as u8; len]),
            1 => Self::Words(vec![(from << 20 | to) as u64 + round as u64; len]),
            _ => Self::Numbers(vec![from as f32 + round as f32 / 4.0; len]),
        }
    }

    fn emptied(&self) -> Self {
        match self {
            Self::Bytes(items) => Self::Bytes(vec![0; items.len()]),
            Self::Words(items) => Self::Words(vec![0; items.len()]),
            Self::Numbers(items) => Self::Numbers(vec![0.0; items.len()]),
        }
    }

    fn read(&self) -> Block<'_> {
        match self {
            Self::Bytes(items) => items[..].into(),
            Self::Words(items) => items[..].into(),
            Self::Numbers(items) => items[..].into(),
        }
    }

    fn written(&mut self) -> BlockMut<'_> {
        match self {
            Self::Bytes(items) => (&mut items[..]).into(),
            Self::Words(items) => (&mut items[..]).into(),
            Self::Numbers(items) => (&mut items[..]).into(),
        }
    }

    fn owned(self) -> OwnedBlock {
        match self {
            Self::Bytes(items) => items.into(),
            Self::Words(items) => items.into(),
            Self::Numbers(items) => items.into(),
        }
    }
}

#[test]
fn blocks_of_different_types_are_exchanged_in_all_ways() {
    for (size, neighbors) in [(1, false), (2, false), (2, true), (5, false), (5, true)] {
        both_ways(size, |world| {
            // A graph in which all are neighbours of all, in order of rank.
            let all: Vec<_> = (0..world.size()).collect();
            let graph = world.dist_graph_create_adjacent((&all, None), (&all, None), false);
            let graph = graph.unwrap();
            let me = world.rank() as usize;
            let out: Vec<_> = (0..size).map(|to| Piece::new(me, to, 0)).collect();
            let expected: Vec<_> = (0..size).map(|from| Piece::new(from, me, 0)).collect();
            let empty: Vec<_> = expected.iter().map(Piece::emptied).collect();

            let mut into = empty.clone();
            let blocks = into.iter_mut().map(Piece::written);
            let sent = out.iter().map(Piece::read);
            match neighbors {
                false => world.alltoallw(sent, blocks).unwrap(),
                true => graph.neighbor_alltoallw(sent, blocks).unwrap(),
            }
            assert_eq!(into, expected);

            let mut into = empty.clone();
            let scoped = world.scope(|s| {
                let blocks = into.iter_mut().map(Piece::written);
                let sent = out.iter().map(Piece::read);
                match neighbors {
                    false => s.ialltoallw(world, sent, blocks)?.wait(),
                    true => s.ineighbor_alltoallw(&graph, sent, blocks)?.wait(),
                }
            });
            assert_eq!((scoped, &into), (Ok(()), &expected));

            let own = |pieces: Vec<Piece>| pieces.into_iter().map(Piece::owned).collect();
            let mut again = match neighbors {
                false => world.alltoallw_init(own(out), own(empty)).unwrap(),
                true => graph.neighbor_alltoallw_init(own(out), own(empty)).unwrap(),
            };
            for round in 0..3_u64 {
                for to in 0..size {
                    if let Some(words) = again.input_mut::<u64>(to).unwrap() {
                        words.fill((me << 20 | to) as u64 + round);
                    }
                }
                again.start().unwrap();
                again.wait().unwrap();
                for (from, piece) in expected.iter().enumerate() {
                    let got = again.output::<u64>(from).unwrap();
                    match piece {
                        Piece::Words(words) => {
                            let sum: u64 = words.iter().map(|word| word + round).sum();
                            assert_eq!(got.map(|words| words.iter().sum()), Some(sum));
                        }
                        _ => assert_eq!(got, None, "it has another type"),
                    }
                    if let Piece::Numbers(numbers) = piece {
                        assert_eq!(again.output::<f32>(from), Ok(Some(&numbers[..])));
                    }
                }
            }
            assert_eq!(again.output::<u64>(size), Ok(None), "there is no such rank");
            let (_, mut received) = again.into_blocks().unwrap();
            let last = received.pop().unwrap();
            if let Piece::Numbers(numbers) = &expected[size - 1] {
                let last = last.into_items::<u64>().unwrap_err();
                assert_eq!(&last.into_items::<f32>().unwrap(), numbers);
            }
        });
    }
}

/// The words or the halves.
fn block(words: bool, pair: &mut (Vec<u64>, Vec<f32>)) -> BlockMut<'_> {
    if words { (&mut pair.0[..]).into() } else { (&mut pair.1[..]).into() }
}

/// Rank a gives rank b blocks of one type where both are odd or even, and of another one where not.
#[test]
fn blocks_of_different_types_are_replaced() {
    for size in [1, 2, 5] {
        both_ways(size, |world| {
            let me = world.rank() as usize;
            let even = |rank: usize| (me + rank).is_multiple_of(2);
            let (len, number) = (|rank| [0, 1, 9, 3000][(me + rank) % 4], |a, b| 100 * a + b);
            let words = |a, b| vec![number(a, b) as u64; len(a + b - me)];
            let halves = |a, b| vec![number(a, b) as f32 / 2.0; len(a + b - me)];
            let mut sent: Vec<_> =
                (0..size).map(|rank| (words(me, rank), halves(me, rank))).collect();
            let due: Vec<_> = (0..size).map(|rank| (words(rank, me), halves(rank, me))).collect();
            let check = |got: &[(Vec<u64>, Vec<f32>)]| {
                for (rank, (got, due)) in got.iter().zip(&due).enumerate() {
                    assert!(if even(rank) { got.0 == due.0 } else { got.1 == due.1 });
                }
            };
            let first = sent.clone();
            world
                .alltoallw_in_place(
                    sent.iter_mut().enumerate().map(|(rank, pair)| block(even(rank), pair)),
                )
                .unwrap();
            check(&sent);
            let mut later = first.clone();
            world
                .scope(|s| {
                    s.ialltoallw_in_place(
                        world,
                        later.iter_mut().enumerate().map(|(rank, pair)| block(even(rank), pair)),
                    )?
                    .wait()
                })
                .unwrap();
            check(&later);
            let owned = first.iter().cloned().enumerate().map(|(rank, (words, halves))| {
                if even(rank) { OwnedBlock::from(words) } else { OwnedBlock::from(halves) }
            });
            let mut again = world.alltoallw_in_place_init(owned.collect()).unwrap();
            for _ in 0..3 {
                for (rank, (words, halves)) in first.iter().enumerate() {
                    if let Some(items) = again.output_mut::<u64>(rank).unwrap() {
                        items.copy_from_slice(words);
                    }
                    if let Some(items) = again.output_mut::<f32>(rank).unwrap() {
                        items.copy_from_slice(halves);
                    }
                }
                again.start().unwrap();
                again.wait().unwrap();
                for (rank, (words, halves)) in due.iter().enumerate() {
                    let (got, other) = (again.output::<u64>(rank), again.output::<f32>(rank));
                    assert_eq!(got, Ok(even(rank).then_some(&words[..])));
                    assert_eq!(other, Ok((!even(rank)).then_some(&halves[..])));
                }
            }
            let (none, blocks) = again.into_blocks().unwrap();
            assert_eq!((none.len(), blocks.len()), (0, size));
        });
    }
}

#[test]
fn an_exchange_of_too_few_blocks_or_of_other_lengths_is_refused() {
    ranks(2, |world| {
        let (out, mut into) = ([1_u8; 4], [0_u8; 4]);
        let few = world.alltoallw([out[..].into()], [(&mut into[..]).into()]);
        assert!(matches!(few, Err(MpiError::InvalidLength { expected: 2, got: 1, .. })), "{few:?}");
        let none = world.alltoallw_init(Vec::new(), Vec::new());
        assert!(matches!(none, Err(MpiError::InvalidLength { .. })), "{none:?}");
        let ring = world.cart_create(&[2], &[true], false).unwrap().unwrap();
        let few = ring.neighbor_alltoallw([out[..].into()], [(&mut into[..]).into()]);
        assert!(matches!(few, Err(MpiError::InvalidLength { expected: 2, got: 1, .. })), "{few:?}");
        // The block from the other rank is longer than what is taken.
        let other = 1 - world.rank() as usize;
        let mut buffers = [[0_u16; 2], [0; 2]];
        let mut buffers: Vec<&mut [u16]> =
            buffers.iter_mut().map(|buffer| &mut buffer[..]).collect();
        buffers[other] = &mut [];
        let blocks = buffers.into_iter().map(BlockMut::from);
        let outcome = world.alltoallw([out[..].into(), out[..].into()], blocks);
        assert!(matches!(outcome, Err(MpiError::CountMismatch { .. })), "{outcome:?}");
    });
}

#[test]
fn collectives_stand_in_one_list_with_messages() {
    both_ways(3, |world| {
        let (right, left) = ((world.rank() + 1) % 3, (world.rank() + 2) % 3);
        let (mine, mut sum, mut came) = ([world.rank() as u64; 2000], [0; 2000], [0_u8; 3]);
        let mut again = world.allreduce_init(vec![1_u32], vec![0], Sum).unwrap();
        again.start().unwrap();
        world
            .scope(|s| {
                let mut receive = s.irecv(world, &mut came, left, 1)?;
                let mut total = s.iallreduce(world, &mine, &mut sum, Sum)?;
                let mut list: [&mut dyn Request; 3] = [&mut receive, &mut total, &mut again];
                let send = s.isend(world, &[7_u8; 3], right, 1)?;
                let mut reported = Vec::new();
                while let Some((which, outcome)) = wait_any(&mut list) {
                    let bytes = if which == 0 { 3 } else { 0 };
                    assert_eq!(outcome?.bytes(), bytes);
                    reported.push(which);
                }
                reported.sort_unstable();
                assert_eq!(reported, [0, 1, 2], "each is reported once");
                assert_eq!(list[2].outcome().map(|outcome| outcome.is_ok()), Some(true));
                assert_eq!(total.test(), Ok(true), "it stays ended");
                send.wait()
            })
            .unwrap();
        assert_eq!((sum, came), ([3; 2000], [7; 3]));
        assert_eq!(again.output().unwrap(), [3]);

        let (mut first, mut second) = ([0_u64; 1], [0_u64; 1]);
        world
            .scope(|s| {
                let mut list: Vec<AnyRequest<'_>> = vec![
                    s.iallreduce(world, &[1], &mut first, Sum)?.into(),
                    s.irecv(world, &mut second, left, 2)?.into(),
                    s.ibarrier(world)?.into(),
                ];
                list[0].cancel();
                world.send(&[5_u64], right, 2)?;
                if test_all(&mut list)?.is_none() {
                    assert_eq!(wait_all(&mut list)?.len(), 3);
                }
                assert!(list.iter().all(|request| !request.is_active()));
                Ok(())
            })
            .unwrap();
        assert_eq!((first, second), ([3], [5]));
    });
}
