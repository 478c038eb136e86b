"""The Fourier transform of a matrix whose rows are dealt out, by two transposes.

    mpiexec -n 4 python examples/python/fft.py [SIZE]

Each rank transforms its rows, the matrix is transposed, and each transforms what are rows now. The transpose
is one Alltoallw: a block goes out as a part of the rows and comes in as a type that puts its columns where rows
are, so that neither side packs. The answer is compared with numpy's fft2, and the program ends with 1 where they
differ.
"""

import sys

import numpy as np
from mpi4py import MPI


def transposed(comm, part, rows, n):
    """My rows of the transpose of a matrix of n columns, whose rows are dealt out as `rows` says."""
    rank, size = comm.rank, comm.size
    starts = np.concatenate(([0], np.cumsum(rows)))
    mine, number = rows[rank], MPI.COMPLEX16
    width = number.Get_extent()[1]
    out = np.empty((mine, n), dtype=np.complex128)
    sent, received = [], []
    for peer in range(size):
        block = number.Create_subarray([mine, n], [mine, rows[peer]], [0, starts[peer]])
        sent.append(block.Commit())
        # A row of the block becomes a column here.
        column = number.Create_vector(mine, 1, n)
        placed = column.Create_resized(0, width)
        turned = placed.Create_contiguous(rows[peer]).Create_resized(0, width)
        shifted = MPI.Datatype.Create_struct([1], [int(starts[peer]) * width], [turned])
        received.append(shifted.Commit())
    ones, zeros = [1] * size, [0] * size
    comm.Alltoallw([part, ones, zeros, sent], [out, ones, zeros, received])
    for made in sent + received:
        made.Free()
    return out


def main():
    comm = MPI.COMM_WORLD
    rank, size = comm.rank, comm.size
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 96
    rows = [n // size + (r < n % size) for r in range(size)]
    begin = sum(rows[:rank])
    generator = np.random.default_rng(7)
    whole = generator.random((n, n)) + 1j * generator.random((n, n))

    comm.Barrier()
    start = MPI.Wtime()
    part = np.fft.fft(whole[begin : begin + rows[rank]], axis=1)
    part = np.fft.fft(transposed(comm, part, rows, n), axis=1)
    part = transposed(comm, part, rows, n)
    took = comm.allreduce(MPI.Wtime() - start, op=MPI.MAX)

    expected = np.fft.fft2(whole)[begin : begin + rows[rank]]
    off = np.abs(part - expected).max() if rows[rank] else 0.0
    difference = comm.allreduce(float(off), op=MPI.MAX)
    if rank == 0:
        print(f"fft: {n} x {n} on {size}: {took:.3f} s, off by {difference:.1e}")
    return not difference < 1e-6


if __name__ == "__main__":
    sys.exit(int(main()))
