"""A query that scores Parquet files as a stream: python -m tests.spark.stream FOLDER.

FOLDER/in holds the records, FOLDER/model a committee and FOLDER/checkpoint the query's positions.
Predictions are written to FOLDER/out. The query ends when all files are read.
"""

import sys
from pathlib import Path

from streamboost.spark import score
from tests.spark.environment import create_session

NAMES = [f"x{n}" for n in range(8)]
FILES_IN_A_BATCH = 10


def main():
    folder = Path(sys.argv[1])
    spark = create_session()
    schema = ", ".join(["id BIGINT", *(f"{name} DOUBLE" for name in NAMES)])
    source = spark.readStream.schema(schema).option("maxFilesPerTrigger", str(FILES_IN_A_BATCH))
    scored = score(source.parquet(str(folder / "in")), folder / "model", columns=NAMES)
    query = (
        scored.select("id", "prediction")
        .writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print(f"Spark reads {spark.read.parquet(str(folder / 'out')).count()} records")


if __name__ == "__main__":
    main()
