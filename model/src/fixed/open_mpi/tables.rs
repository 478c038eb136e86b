//! The tables of tuned, as numbers. Each row holds for fewer ranks than its number, and each entry of it for fewer bytes.

/// Numbers of algorithms by numbers of ranks and bytes.
pub(super) type Table = &'static [(u32, &'static [(usize, u8)])];

/// The number that a table has.
pub(super) fn find(table: Table, ranks: u32, bytes: usize) -> u8 {
    let row = table.iter().find(|(below, _)| ranks < *below || *below == ALL);
    let (_, row) = row.expect("the last row holds for all");
    let entry = row.iter().find(|(below, _)| bytes < *below || *below == REST);
    entry.expect("the last entry holds for all").1
}

const ALL: u32 = u32::MAX;
const REST: usize = usize::MAX;
const K: usize = 1 << 10;
const M: usize = 1 << 20;

/// Commutative operations, by bytes of a vector.
pub(super) const ALLREDUCE: Table = &[
    (4, &[(8, 4), (4 * K, 3), (8 * K, 4), (16 * K, 3), (64 * K, 4), (256 * K, 5), (REST, 6)]),
    (8, &[(16, 4), (8 * K, 3), (REST, 6)]),
    (16, &[(8 * K, 3), (REST, 6)]),
    (32, &[(64, 5), (4 * K, 3), (REST, 6)]),
    (64, &[(128, 5), (REST, 6)]),
    (128, &[(256 * K, 3), (REST, 6)]),
    (256, &[(128 * K, 2), (256 * K, 3), (REST, 6)]),
    (512, &[(4 * K, 2), (REST, 6)]),
    (2048, &[(2 * K, 2), (16 * K, 3), (REST, 6)]),
    (4096, &[(2 * K, 2), (4 * K, 5), (16 * K, 3), (REST, 6)]),
    (ALL, &[(2 * K, 2), (16 * K, 5), (32 * K, 3), (REST, 6)]),
];

/// Operations that are not.
pub(super) const ALLREDUCE_IN_ORDER: Table = &[
    (4, &[(128 * K, 3), (REST, 1)]),
    (8, &[(REST, 3)]),
    (16, &[(M, 3), (REST, 2)]),
    (128, &[(REST, 3)]),
    (256, &[(128 * K, 2), (512 * K, 3), (REST, 2)]),
    (512, &[(4 * K, 2), (512 * K, 3), (REST, 2)]),
    (ALL, &[(2 * K, 2), (REST, 3)]),
];

/// By bytes.
pub(super) const BCAST: Table = &[
    (
        4,
        &[
            (32, 3),
            (256, 5),
            (512, 3),
            (K, 7),
            (32 * K, 1),
            (128 * K, 5),
            (256 * K, 2),
            (512 * K, 1),
            (M, 6),
            (REST, 5),
        ],
    ),
    (8, &[(64, 5), (128, 6), (2 * K, 5), (8 * K, 6), (M, 1), (REST, 2)]),
    (16, &[(8, 7), (64, 5), (4 * K, 7), (16 * K, 5), (32 * K, 6), (REST, 1)]),
    (32, &[(4 * K, 7), (M, 6), (REST, 8)]),
    (64, &[(2 * K, 6), (REST, 7)]),
    (128, &[(REST, 7)]),
    (256, &[(2, 6), (16 * K, 5), (32 * K, 1), (64 * K, 5), (REST, 7)]),
    (1024, &[(16 * K, 7), (32 * K, 4), (REST, 7)]),
    (2048, &[(512 * K, 7), (REST, 8)]),
    (4096, &[(256 * K, 7), (REST, 8)]),
    (ALL, &[(8 * K, 7), (16 * K, 5), (256 * K, 7), (REST, 8)]),
];

/// Commutative operations, by bytes of a vector.
pub(super) const REDUCE: Table = &[
    (4, &[(8, 7), (16, 4), (32, 3), (256 * K, 1), (512 * K, 3), (M, 2), (REST, 3)]),
    (8, &[(4 * K, 4), (64 * K, 2), (256 * K, 5), (512 * K, 1), (M, 5), (REST, 1)]),
    (16, &[(8 * K, 4), (REST, 5)]),
    (32, &[(4 * K, 4), (REST, 5)]),
    (256, &[(REST, 5)]),
    (512, &[(8 * K, 5), (16 * K, 6), (REST, 5)]),
    (2048, &[(REST, 5)]),
    (4096, &[(512, 5), (K, 6), (8 * K, 5), (16 * K, 6), (REST, 5)]),
    (ALL, &[(16, 5), (32, 6), (K, 5), (2 * K, 6), (8 * K, 5), (16 * K, 6), (REST, 5)]),
];

/// Operations that are not.
pub(super) const REDUCE_IN_ORDER: Table = &[
    (4, &[(8, 6), (REST, 1)]),
    (8, &[(REST, 1)]),
    (16, &[(K, 6), (8 * K, 1), (16 * K, 6), (256 * K, 1), (REST, 6)]),
    (128, &[(REST, 6)]),
    (256, &[(512, 6), (K, 1), (REST, 6)]),
    (ALL, &[(REST, 6)]),
];

/// By bytes of a block.
pub(super) const ALLGATHER: Table = &[
    (3, &[(REST, 6)]),
    (32, &[(REST, 3)]),
    (64, &[(K, 3), (64 * K, 5), (REST, 4)]),
    (128, &[(512, 3), (64 * K, 5), (REST, 4)]),
    (256, &[(512, 3), (128 * K, 5), (512 * K, 4), (M, 5), (REST, 4)]),
    (512, &[(32, 3), (128, 2), (K, 3), (128 * K, 5), (512 * K, 4), (M, 5), (REST, 4)]),
    (1024, &[(64, 3), (256, 2), (2 * K, 3), (REST, 5)]),
    (2048, &[(4, 3), (8, 2), (16, 3), (32, 2), (256, 3), (512, 2), (4 * K, 3), (REST, 5)]),
    (4096, &[(32, 2), (128, 3), (512, 2), (4 * K, 3), (REST, 5)]),
    (ALL, &[(2, 3), (8, 2), (16, 3), (512, 2), (4 * K, 3), (REST, 5)]),
];

/// By bytes of a block.
pub(super) const ALLTOALL: Table = &[
    (
        3,
        &[
            (2, 2),
            (4, 5),
            (16, 2),
            (64, 5),
            (256, 2),
            (4 * K, 5),
            (32 * K, 2),
            (256 * K, 4),
            (M, 5),
            (REST, 2),
        ],
    ),
    (8, &[(8 * K, 4), (16 * K, 1), (64 * K, 4), (512 * K, 1), (M, 2), (REST, 1)]),
    (16, &[(256 * K, 4), (REST, 1)]),
    (32, &[(4, 4), (512, 3), (8 * K, 4), (32 * K, 1), (256 * K, 4), (512 * K, 1), (REST, 4)]),
    (64, &[(512, 3), (512 * K, 1), (REST, 4)]),
    (128, &[(K, 3), (2 * K, 1), (4 * K, 4), (256 * K, 1), (REST, 2)]),
    (256, &[(K, 3), (2 * K, 4), (256 * K, 1), (REST, 2)]),
    (512, &[(K, 3), (8 * K, 4), (32 * K, 1), (REST, 2)]),
    (1024, &[(512, 3), (8 * K, 4), (16 * K, 1), (128 * K, 4), (256 * K, 1), (REST, 2)]),
    (2048, &[(512, 3), (K, 4), (2 * K, 1), (16 * K, 4), (256 * K, 1), (REST, 4)]),
    (4096, &[(K, 3), (4 * K, 4), (8 * K, 1), (128 * K, 4), (REST, 1)]),
    (ALL, &[(2 * K, 3), (8 * K, 4), (16 * K, 1), (32 * K, 4), (64 * K, 1), (REST, 4)]),
];

/// Commutative operations, by bytes of a vector.
pub(super) const REDUCE_SCATTER: Table = &[
    (4, &[(64 * K, 3), (128 * K, 4), (REST, 3)]),
    (8, &[(8, 1), (256 * K, 2), (REST, 3)]),
    (32, &[(256 * K, 2), (REST, 3)]),
    (64, &[(64, 1), (2 * K, 2), (512 * K, 4), (REST, 3)]),
    (128, &[(256, 1), (512, 2), (2 * K, 4), (4 * K, 2), (REST, 4)]),
    (256, &[(256, 1), (512, 2), (REST, 4)]),
    (512, &[(256, 1), (K, 2), (REST, 4)]),
    (1024, &[(512, 1), (2 * K, 2), (8 * K, 4), (16 * K, 2), (REST, 4)]),
    (2048, &[(512, 1), (4 * K, 2), (16 * K, 4), (32 * K, 2), (REST, 4)]),
    (4096, &[(512, 1), (4 * K, 2), (REST, 4)]),
    (ALL, &[(K, 1), (8 * K, 2), (REST, 4)]),
];

/// Commutative operations, by bytes of a block.
pub(super) const REDUCE_SCATTER_BLOCK: Table = &[
    (
        4,
        &[
            (4, 2),
            (8, 4),
            (16, 3),
            (128, 4),
            (256, 3),
            (4 * K, 4),
            (8 * K, 3),
            (128 * K, 4),
            (REST, 1),
        ],
    ),
    (8, &[(8, 3), (32, 2), (256, 4), (8 * K, 3), (16 * K, 4), (M, 3), (REST, 1)]),
    (16, &[(4, 1), (32, 3), (128, 4), (512 * K, 3), (4 * M, 1), (REST, 4)]),
    (32, &[(32, 1), (512 * K, 3), (2 * M, 1), (4 * M, 3), (REST, 4)]),
    (ALL, &[(4, 3), (16, 1), (64 * K, 4), (256 * K, 1), (REST, 4)]),
];

/// By ranks alone.
pub(super) const BARRIER: Table = &[
    (4, &[(REST, 3)]),
    (8, &[(REST, 1)]),
    (64, &[(REST, 3)]),
    (256, &[(REST, 4)]),
    (512, &[(REST, 6)]),
    (1024, &[(REST, 4)]),
    (4096, &[(REST, 6)]),
    (ALL, &[(REST, 4)]),
];

/// By bytes of a block.
pub(super) const GATHER: Table = &[
    (4, &[(2, 3), (4, 1), (32 * K, 2), (64 * K, 1), (128 * K, 2), (REST, 3)]),
    (8, &[(K, 2), (8 * K, 1), (32 * K, 2), (256 * K, 1), (REST, 3)]),
    (256, &[(REST, 2)]),
    (512, &[(2 * K, 2), (8 * K, 1), (REST, 2)]),
    (ALL, &[(REST, 2)]),
];

/// By bytes of a block.
pub(super) const SCATTER: Table = &[
    (4, &[(2, 3), (128 * K, 1), (256 * K, 3), (REST, 1)]),
    (8, &[(2 * K, 2), (4 * K, 1), (8 * K, 2), (32 * K, 1), (M, 3), (REST, 1)]),
    (16, &[(16 * K, 2), (M, 3), (REST, 1)]),
    (32, &[(16 * K, 2), (32 * K, 1), (REST, 3)]),
    (64, &[(512, 2), (8 * K, 3), (16 * K, 2), (REST, 3)]),
    (ALL, &[(512, 2), (REST, 3)]),
];
