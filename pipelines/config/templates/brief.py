"""Short template of a pipeline file, which `streamboost init` writes."""

import json

_BRIEF_ABOUT = """\
# {about}
# `streamboost check` validates this file, and `streamboost run` starts the pipeline. For all keys
# with their default values: `streamboost init {option}--all all.toml`.

[pipeline]
name = "segments"
batch_records = 10          # maximum number of records in a batch

"""

_BRIEF_RIVER = """\
# Records, one JSON object a line such as {"id": "7", "width": 1.5}. To read your own file:
#   connector = "files"     # JSON Lines, CSV (.csv) or Parquet (.parquet)
#   path = "records.jsonl"
[source]
connector = "river"
dataset = "ImageSegments"

# Labels such as {"id": "7", "label": "grass"}. For labels from `streamboost serve` instead:
#   connector = "sqlite"
#   stream = "labels"
[labels]
connector = "river"
dataset = "ImageSegments"
delay = 20                  # records that pass before a label comes

"""

_BRIEF_KAFKA = """\
# `streamboost check --create-topics` creates the topics segments.records, .labels, .predictions,
# .requests and .dead_letters.
[kafka]
bootstrap_servers = "localhost:9092"

# Records such as {"id": "7", "width": 1.5}.
[source]
connector = "kafka"

# Labels such as {"id": "7", "label": "grass"}.
[labels]
connector = "kafka"

[predictions]
connector = "kafka"

[requests]
connector = "kafka"

[dead_letters]
connector = "kafka"

"""

_BRIEF_LEARNER = """\
# Requests: labels of records whose prediction is uncertain.
[query]
budget = 0.1                # share of the records whose label may be requested

# A port other than 0 serves /healthz, /readyz and /metrics on this machine.
[monitor]
port = 0
"""


_OWN = """\
# A streamboost pipeline over the labelled records in {path}.
# `streamboost check` validates this file, and `streamboost run` starts the pipeline. For all keys
# with their default values: `streamboost init --all all.toml`.

[pipeline]
name = {name}
batch_records = {batch}          # maximum number of records in a batch

[schema]
id = {id}
# time = "..."              # the field with the record's time, if it has one

# The types of fields are inferred from the first records, unless they are declared:
# [schema.fields]
# zip = "category"          # or "number", "text", "time"

[source]
connector = "files"
path = {path}

# Labels of the file, each returned when it is requested. For labels from `streamboost serve`
# instead:
#   connector = "sqlite"
#   stream = "labels"
[labels]
connector = "oracle"
path = {path}
delay = 20                  # records that pass before a label comes

[labels.fields]
id = {id}
label = {label}

"""


def render_template_for_records(name: str, path: str, id: str, label: str, batch: int) -> str:
    """Return the text of a pipeline file for the user's own labelled records.

    Parameters
    ----------
    path : path of the records, relative to the pipeline file
    id, label : names of the id field and the label field
    batch : maximum number of records in a batch
    """
    texts = {"name": name, "path": path, "id": id, "label": label}
    quoted = {key: json.dumps(text, ensure_ascii=False) for key, text in texts.items()}
    return _OWN.format(batch=batch, **quoted) + _BRIEF_LEARNER


def render_template(*, kafka: bool = False) -> str:
    """Return the text of a short pipeline file, with comments.

    Its source is River's ImageSegments data set or, with `kafka`, a Kafka topic.
    """
    about = (
        "A streamboost pipeline over topics of a Kafka cluster."
        if kafka
        else "A streamboost pipeline over River's ImageSegments, records and labels."
    )
    beginning = _BRIEF_ABOUT.format(about=about, option="--kafka " if kafka else "")
    return beginning + (_BRIEF_KAFKA if kafka else _BRIEF_RIVER) + _BRIEF_LEARNER
