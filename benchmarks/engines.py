"""Speed and cost of a prediction by engine: Spark, a Kafka group of scorers, and bare consumers.

    python -m benchmarks.engines [--records 20000] [--rows 400000] [--batch 500] [--partitions 4]

The benchmark starts a broker on the same cores and generates records of 16 features and 8 classes.
All engines use the committee that the pipeline trains once on 2,000 labels. One run compares, with
two processes or tasks each:

- Spark in local mode, `mapInArrow`, from Parquet and from JSON lines to JSON text, without a sink;
- scorers of a consumer group, as in `benchmarks.distributed`: predictions, requests and the scoring
  log in transactions;
- members of a group that poll the same records and write as many messages, in transactions of the
  same size.

CPU is user and system time, of Spark with its Java process. The broker's time is not included. The
cores for 1,000,000 records per second are computed: that rate times the CPU time of a record. Spark
must be installed in .cache/spark, as by `make test-slow`.
"""

import argparse
import json
import math
import subprocess
import tempfile
from pathlib import Path
from statistics import median

import pyarrow as pa
from pyarrow import parquet
from rich.console import Console
from rich.table import Table

from benchmarks.distributed import TAUGHT, TURNS, bare, prepare, put_all, scoring, together, trained
from benchmarks.kafka_pipeline import messages
from streamboost.pipelines.config.file import load
from tests.broker.broker import Broker
from tests.spark.environment import PYTHON, ROOT, environment, missing

FILES, RATE = 4, 1_000_000


def kafka(folder, n, batch, partitions):
    """Return the pipeline file, and (records per second, CPU µs) of groups by title."""
    rates = {}
    (folder / "broker").mkdir()
    with Broker(folder / "broker") as broker:
        for _ in range(TURNS):
            for title, work in (("Kafka group: scorers", scoring), ("Kafka group: bare", bare)):
                file = prepare(folder, broker.servers, partitions, batch)
                put_all(broker.servers, load(file).name, n, partitions)
                rates.setdefault(title, []).append(together(work, file, n, 2))
    return file, {
        title: tuple(median(one[i] for one in found) for i in (0, 1))
        for title, found in rates.items()
    }


def spark(folder, file, n):
    """Return the result of `benchmarks.spark_rates` on `n` rows and the committee of `file`."""
    trained(file)[1].committee.save(folder / "model")
    payloads, _ = messages(TAUGHT, n)
    for kind in ("parquet", "json"):
        (folder / kind).mkdir()
    for i in range(FILES):
        part = payloads[i::FILES]
        (folder / "json" / f"{i}.json").write_bytes(b"\n".join(part))
        rows = pa.Table.from_pylist([json.loads(one) for one in part])
        parquet.write_table(rows, folder / "parquet" / f"{i}.parquet")
    done = subprocess.run(
        [PYTHON, "-m", "benchmarks.spark_rates", str(folder)],
        cwd=ROOT,
        env=environment(java=""),
        stdout=subprocess.PIPE,
        check=True,
        start_new_session=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--partitions", type=int, default=4)
    given = parser.parse_args()
    if lacking := missing():
        parser.error(lacking)
    with tempfile.TemporaryDirectory() as name:
        file, rates = kafka(Path(name), given.records, given.batch, given.partitions)
        found = spark(Path(name), file, given.rows)
    rates = {
        "Spark, Parquet": found["parquet"],
        "Spark, JSON lines to JSON": found["json"],
        **rates,
    }
    table = Table("two processes", "records/s", "CPU µs a record", "records/s and core", "cores")
    for title, (rate, cpu) in rates.items():
        cores = math.ceil(RATE * cpu / 1e6)
        table.add_row(title, f"{rate:,.0f}", f"{cpu:.1f}", f"{1e6 / cpu:,.0f}", f"{cores:,}")
    Console().print(table)
    print(f"cores: for {RATE:,} records/s; a record has {len(messages(TAUGHT, 1)[0][0])} bytes")
    starts = (f"{title} {seconds:.1f}" for title, seconds in found.items() if title.endswith(", s"))
    print(f"Spark: {'; '.join(starts)}")


if __name__ == "__main__":
    main()
