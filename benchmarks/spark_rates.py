"""Speed of a committee in Spark, in local mode: started by `benchmarks.engines`.

    .cache/spark/bin/python -m benchmarks.spark_rates FOLDER

FOLDER holds a committee `model`, and the same records as Parquet in `parquet` and as JSON lines in
`json`. The script prints JSON: by input, the rows per second and the CPU time in µs per row, each
the median of three passes after one to warm up, and the seconds of the session's start and of the
first pass. The predictions go to a sink that discards them. The CPU time includes the driver's Java
process and the Python workers.
"""

import json
import os
import sys
import time
from pathlib import Path
from statistics import median

from benchmarks.kafka_pipeline import NAMES
from streamboost.spark import score
from tests.spark.environment import create_session

PASSES, TICKS = 3, os.sysconf("SC_CLK_TCK")
SCHEMA = ", ".join(["id STRING", *(f"{name} DOUBLE" for name in NAMES)])


def session_cpu():
    """Return the CPU seconds of all processes of this session, and of children that ended."""
    own, ticks = os.getsid(0), 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # the process has ended
            continue
        if int(fields[3]) == own:
            ticks += sum(map(int, fields[11:15]))
    return ticks / TICKS


def measure(act):
    """Return the wall-clock and CPU seconds of `act`."""
    wall, cpu = time.perf_counter(), session_cpu()
    act()
    return time.perf_counter() - wall, session_cpu() - cpu


def main():
    folder, found = Path(sys.argv[1]), {}
    found["start, s"] = measure(create_session)[0]
    spark = create_session()
    n = spark.read.parquet(str(folder / "parquet")).count()
    for kind in ("parquet", "json"):
        records = spark.read.schema(SCHEMA).format(kind).load(str(folder / kind))
        scored = score(records, folder / "model", columns=NAMES).select("id", "prediction")
        if kind == "json":
            scored = scored.selectExpr("to_json(struct(id, prediction))")
        sink = scored.write.format("noop").mode("overwrite")
        first, *later = [measure(sink.save) for _ in range(1 + PASSES)]
        found[f"{kind}, first, s"] = first[0]
        wall, cpu = (median(one[i] for one in later) for i in (0, 1))
        found[kind] = n / wall, 1e6 * cpu / n
    print(json.dumps(found))


if __name__ == "__main__":
    main()
