"""A process that commits batches to a file until the process is killed in the middle of a batch.

`test_sqlite.py` starts this script and kills the process. The script prints `inside` once half of
batch 3 is written in an open transaction, and then waits to be killed.
"""

import sys

from streamboost.connectors.sqlite.stream import SqliteSink
from streamboost.connectors.sqlite.transaction import SqliteTransaction


class Endless(list[bytes]):
    """Payloads of which the second half never comes."""

    def __iter__(self):
        for number in range(1000):
            yield b"half %d" % number
        print("inside", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    path = sys.argv[1]
    transaction, sink = SqliteTransaction(path, "demo"), SqliteSink(path, "out")
    for sequence in (1, 2):
        writes = [(sink, [b"batch %d" % sequence])]
        transaction.commit(sequence, writes, {"records": {"0": sequence}}, b"%d" % sequence)
    transaction.commit(3, [(sink, [b"batch 3"]), (sink, Endless())], {"records": {"0": 3}}, b"3")
