"""A Python environment with Spark, which `make test-slow` installs, and programs that run in it.

    .cache/spark/bin/python -m tests.spark.environment

This command archives the classes that Spark loads. With the archive, Spark starts in half the time.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PYTHON = Path(os.environ.get("STREAMBOOST_SPARK", ROOT / ".cache" / "spark" / "bin" / "python"))
"""Python of the environment, of Spark's driver and of its workers."""

_CLASSES = PYTHON.parents[1] / "classes.jsa"
_STARTS_FAST = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def missing():
    """Return the reason that Spark cannot be started here, or None."""
    if shutil.which("java") is None:
        return "Java not found: install Java 17 or newer"
    return None if PYTHON.exists() else f"{PYTHON} is missing: `make test-slow` installs Spark"


def environment(java=f"{_STARTS_FAST} -XX:SharedArchiveFile={_CLASSES}"):
    """Return the variables of a driver that listens on this machine alone."""
    return os.environ | {
        "JDK_JAVA_OPTIONS": java,
        "PYSPARK_PYTHON": str(PYTHON),
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_HOSTNAME": "localhost",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def start(log, *command):
    """Start Python with `command` in a session of its own, which `os.killpg` ends as a whole."""
    with log.open("ab") as file:
        return subprocess.Popen(
            [PYTHON, *command],
            cwd=log.parent,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )


def create_session(threads=2):
    """Return a Spark session in this process, with as many tasks at a time as `threads`."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{threads}]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    return builder.config("spark.sql.shuffle.partitions", str(threads)).getOrCreate()


def main():
    os.environ.update(
        environment(f"{_STARTS_FAST} -XX:ArchiveClassesAtExit={_CLASSES} -Xlog:cds=off")
    )
    spark = create_session()
    with tempfile.TemporaryDirectory() as folder:
        numbers = spark.range(9).mapInArrow(lambda batches: batches, "id BIGINT")
        numbers.write.parquet(f"{folder}/numbers")
        spark.read.parquet(f"{folder}/numbers").count()
    gateway = spark.sparkContext._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    main()
