"""A farm: one rank deals out tasks of uneven length, the others come for the next when they are through.

    mpiexec -n 4 python examples/python/farm.py [TASKS]

A task is a range of numbers whose primes are counted. Results come from anybody, as pickled objects; what a
message is stands in its tag. With one rank the dealer does the work itself. The sum is compared with a sieve's, and
every task must have been done once; else the program ends with 1.
"""

import sys

import numpy as np
from mpi4py import MPI

RESULT, READY, TASK, END = range(1, 5)


def primes_between(low, high):
    count = 0
    for number in range(max(low, 2), high):
        divisor = 2
        while divisor * divisor <= number and number % divisor:
            divisor += 1
        count += divisor * divisor > number
    return count


def tasks(count):
    """Ranges that grow, and so does what each number costs."""
    edges = np.cumsum([0] + [20 + 3 * i for i in range(count)])
    return [(int(low), int(high)) for low, high in zip(edges[:-1], edges[1:])]


def deal(comm, work):
    results, who = {}, {}
    queue = list(enumerate(work))
    helpers = comm.size - 1
    if helpers == 0:
        return {number: primes_between(*task) for number, task in queue}, who
    status = MPI.Status()
    while helpers:
        message = comm.recv(source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG, status=status)
        source = status.Get_source()
        if status.Get_tag() == RESULT:
            number, count = message
            if number in results:
                raise RuntimeError(f"task {number} was done twice")
            results[number] = count
            who[source] = who.get(source, 0) + 1
        elif queue:
            comm.send(queue.pop(0), dest=source, tag=TASK)
        else:
            comm.send(None, dest=source, tag=END)
            helpers -= 1
    return results, who


def labour(comm):
    status = MPI.Status()
    while True:
        comm.send(None, dest=0, tag=READY)
        message = comm.recv(source=0, tag=MPI.ANY_TAG, status=status)
        if status.Get_tag() == END:
            return
        number, task = message
        # It is under way while the next task is asked for.
        comm.isend((number, primes_between(*task)), dest=0, tag=RESULT).wait()


def main():
    comm = MPI.COMM_WORLD
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    wrong = False
    if comm.rank == 0:
        work = tasks(count)
        results, who = deal(comm, work)
        end = work[-1][1]
        sieve = np.ones(end, dtype=bool)
        sieve[:2] = False
        for number in range(2, int(end**0.5) + 1):
            if sieve[number]:
                sieve[number * number :: number] = False
        found = sum(results.values())
        wrong = len(results) != count or found != int(sieve.sum())
        shares = ", ".join(f"rank {rank}: {done}" for rank, done in sorted(who.items()))
        print(f"farm: {count} tasks on {comm.size}: {found} primes below {end}; {shares or 'alone'}")
    else:
        labour(comm)
    return comm.bcast(wrong)


if __name__ == "__main__":
    sys.exit(int(main()))
