"""Conjugate gradients on the Laplacian of a square, by strips of rows.

    mpiexec -n 4 python examples/python/cg.py [SIZE]

Each rank has a strip of the grid with a row of its neighbours' on each side, which it gets by Sendrecv;
neighbours that are not there are MPI.PROC_NULL. Dot products are summed up by Allreduce. The answer is compared with
one of numpy alone, and the program ends with 1 where they differ.
"""

import sys

import numpy as np
from mpi4py import MPI


def laplacian(padded):
    """Five points on a strip that has a row more on each side."""
    out = 4.0 * padded[1:-1]
    out -= padded[:-2]
    out -= padded[2:]
    out[:, 1:] -= padded[1:-1, :-1]
    out[:, :-1] -= padded[1:-1, 1:]
    return out


def solve(right, product, dot, tolerance=1e-10):
    """The iteration; how a product and a sum are made is the caller's."""
    x = np.zeros_like(right)
    residual = right.copy()
    direction = residual.copy()
    error = dot(residual, residual)
    first = error
    steps = 0
    while error > tolerance**2 * first:
        image = product(direction)
        step = error / dot(direction, image)
        x += step * direction
        residual -= step * image
        error, before = dot(residual, residual), error
        direction *= error / before
        direction += residual
        steps += 1
    return x, steps


def main():
    comm = MPI.COMM_WORLD
    rank, size = comm.rank, comm.size
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 120

    # Strips that differ by one row at most.
    rows = [n // size + (r < n % size) for r in range(size)]
    begin = sum(rows[:rank])
    above = rank - 1 if rank > 0 else MPI.PROC_NULL
    below = rank + 1 if rank < size - 1 else MPI.PROC_NULL
    padded = np.zeros((rows[rank] + 2, n))

    def product(strip):
        padded[1:-1] = strip
        comm.Sendrecv(padded[1], above, 0, padded[-1], below, 0)
        comm.Sendrecv(padded[-2], below, 1, padded[0], above, 1)
        return laplacian(padded)

    def dot(a, b):
        mine = np.vdot(a, b)
        return comm.allreduce(mine)

    whole = np.random.default_rng(5).random((n, n))
    comm.Barrier()
    start = MPI.Wtime()
    x, steps = solve(whole[begin : begin + rows[rank]], product, dot)
    took = comm.allreduce(MPI.Wtime() - start, op=MPI.MAX)

    counts = [r * n for r in rows]
    answer = np.empty((n, n)) if rank == 0 else None
    comm.Gatherv(np.ascontiguousarray(x), [answer, counts, MPI.DOUBLE], root=0)
    wrong = False
    if rank == 0:
        alone = np.zeros((n + 2, n))

        def product_alone(grid):
            alone[1:-1] = grid
            return laplacian(alone)

        expected, _ = solve(whole, product_alone, np.vdot)
        difference = np.abs(answer - expected).max()
        wrong = not difference < 1e-6
        print(f"cg: {n} x {n} on {size}: {steps} steps, {took:.3f} s, off by {difference:.1e}")
    return comm.bcast(wrong)


if __name__ == "__main__":
    sys.exit(int(main()))
