"""Batches scored in Spark: python -m tests.spark.batch FOLDER.

In FOLDER, the page's programs are run, and records.jsonl is scored with the learner.safetensors.
"""

import os
import runpy
import sys
import warnings
from pathlib import Path

from streamboost import StreamLearner
from streamboost.errors import ConfigurationError, DataError
from streamboost.spark import score
from streamboost.storage import read_arrays
from tests.spark.environment import create_session

SCHEMA = "id BIGINT, note STRING, device STRUCT<os: STRING>, amount DOUBLE, at TIMESTAMP"


def main():
    os.chdir(sys.argv[1])
    spark = create_session()
    runpy.run_path("page.py")
    learner = StreamLearner.restore(read_arrays("learner.safetensors", kind="learner")[0])
    records = spark.read.schema(SCHEMA).json("records.jsonl").repartition(3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scored = score(records, learner.committee, features=learner.features, probabilities=True)
    assert [one.filename for one in caught if one.category is UserWarning] == [__file__]
    scored.write.parquet("mixed")
    dotted = spark.read.parquet("records").withColumnsRenamed(
        {"amount": "sale.amount", "id": "a`b"}
    )
    names = ["sale.amount", "hour"]
    score(dotted, "unnamed.safetensors", columns=names).toDF("id", *"xyz").write.parquet("dotted")
    path = Path("model.safetensors")
    for wrong, model in ((records, path), (records.toPandas(), path), (records, learner)):
        try:
            score(wrong, model)
        except (ConfigurationError, DataError) as error:
            print(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
