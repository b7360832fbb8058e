"""Full template of a pipeline file with all keys, which `streamboost init --all` writes."""

from typing import Any, Literal, get_args, get_origin

from streamboost.pipelines.config import toml
from streamboost.pipelines.config.connectors.base import Section
from streamboost.pipelines.config.sections import MonitorSection, PipelineSection, ServeSection

_GIVEN: dict[str, tuple[type[Section], dict[str, Any]]] = {
    "pipeline": (PipelineSection, {"name": "segments", "batch_records": 10}),
    "monitor": (MonitorSection, {}),
    "serve": (ServeSection, {}),
}
"""Sections whose keys are generated from their fields, and the keys that the file sets."""

_RIVER_ABOUT = """\
# A streamboost pipeline. Without changes, it predicts River's ImageSegments, and the dataset
# answers its requests. `streamboost check` validates this file, and `streamboost run` starts the
# pipeline. Lines that begin with "# key =" show the default value.
#
"""

_KAFKA_ABOUT = """\
# A streamboost pipeline over Kafka topics. `streamboost check --create-topics` creates the topics
# and validates this file, and `streamboost run` starts the pipeline. Lines that begin with
# "# key =" show the default value.
#
"""

_JOB = """\
# Relative paths start at this file's folder. Text such as "${NAME}" takes the value of the
# environment variable NAME.
#
# After the first run, these keys may still change: state (if its folder is moved),
# batch_records, batch_labels, poll_interval, checkpoint_every, checkpoint_copy, retention,
# on_data_loss, keep_versions, follow, port, include, and the location of predictions, dead letters
# and requests (unless a dataset or a file answers them). Fields may be added to
# [schema.fields], and [schema] classes may change. Any other change needs a new state folder.

[pipeline]
{pipeline}

[schema]
# id = "id"                 # field with the record's id
# time = "time"             # field with the record's time; default: no time
# label = "auto"            # type of the first label; or "string", "integer", "boolean"
# numeric = "auto"          # or a list of names: only these fields, which are numbers
# max_record_bytes = 1000000
# Allowed labels; other labels become dead letters:
#   classes = ["grass", "sky"]
#
# The types of other fields are inferred from the first records. Names may be dotted paths. Fields
# that are left out, with the fields inside them:
#   exclude = ["card"]
# Types of fields:
#   [schema.fields]
#   amount = "number"
#   "device.os" = "category"
#   zip = { type = "category", min_frequency = 5 }
#   note = "text"
#   ts = { type = "time", zone = "Europe/Berlin" }
#   memo = { type = "text", encoder = "all-minilm-l6-v2" }
#   vec = { type = "vector", size = 384 }

"""

_RIVER = """\
# Source of the records: files, sqlite or river.
[source]
connector = "river"
dataset = "ImageSegments"
# connector = "files"       # JSON Lines: {"id": "7", "width": 1.5, ...}; or CSV with a header
# path = "records.jsonl"    # (.csv), either compressed (.gz), Parquet (.parquet), or "-": JSON
                            # Lines from standard input
# follow = false            # whether lines are still being added
# connector = "sqlite"      # a stream of a SQLite log; default: the log in the state folder
# stream = "records"
# path = "log.db"

# Source of the labels, such as {"id": "7", "label": "grass"}. Labels may be whole records:
#   [labels.fields]
#   id = "payment_id"
#   label = "is_fraud"
[labels]
connector = "river"
dataset = "ImageSegments"
delay = 20                  # records that pass before a label comes
# connector = "files"
# path = "labels.jsonl"
# follow = true
# connector = "oracle"      # known labels, returned for requests
# path = "records.jsonl"    # a file of labelled records: id and label are read
# answer = "requested"      # records whose labels are returned; or "all"
# delay = 20                # records that pass before a label comes; or "7d", by their own times
# on_conflict = "last"      # rule for several labels of one record; or "first", "vote"

# Labelled records that are learned before the first record, without requests. Each has the
# features of a record and a field "label".
[initial_data]
# path = "known.csv"        # or JSON Lines, or Parquet
# committee = "model.safetensors"   # or an initial committee, written by its `save`

# Outputs: sqlite or files. If all three are streams of the log in the state folder, each message
# is written exactly once.
[predictions]
connector = "sqlite"
stream = "predictions"
# include = ["amount"]      # fields of a record that are copied to its prediction
# probabilities = false     # whether predictions include the probabilities of all classes

[requests]
connector = "sqlite"
stream = "requests"
# expires_after = 100000    # time after which a request expires: records, or "7d"

[dead_letters]
connector = "sqlite"
stream = "dead_letters"

"""

_KAFKA = """\
# The cluster. In addition to the two keys below, all options of kafka-python's clients are keys.
[kafka]
bootstrap_servers = "localhost:9092"
# transactions = true       # each message is written exactly once; with false, the journal is in
                            # the state folder, and a crash may duplicate messages
# security_protocol = "SASL_SSL"
# sasl_mechanism = "SCRAM-SHA-512"
# sasl_plain_username = "streamboost"
# sasl_plain_password = "${KAFKA_PASSWORD}"

# Registry of the schemas of topics in Avro or JSON Schema:
#   [schema_registry]
#   url = "http://localhost:8081"
#   username = "streamboost"
#   password = "${REGISTRY_PASSWORD}"

# Records, {"id": "7", "width": 1.5, ...}. Topic names begin with the pipeline's name by default.
[source]
connector = "kafka"
# topic = "segments.records"
# id_from = "field"         # or "key": the message's key names the record
# format = "json"           # or "avro", "json-schema"; also in the sections below, each for itself

# Labels, {"id": "7", "label": "grass"}. They may be whole records:
#   [labels.fields]
#   id = "payment_id"
#   label = "is_fraud"
[labels]
connector = "kafka"
# topic = "segments.labels"
# connector = "inline"      # labels are messages of [source]
# on_conflict = "last"      # rule for several labels of one record; or "first", "vote"

[predictions]
connector = "kafka"
# topic = "segments.predictions"
# include = ["amount"]      # fields of a record that are copied to its prediction
# probabilities = false     # whether predictions include the probabilities of all classes

[requests]
connector = "kafka"
# topic = "segments.requests"
# expires_after = 100000    # time after which a request expires: records, or "7d"

[dead_letters]
connector = "kafka"
# topic = "segments.dead_letters"

"""

_LEARNER = """\
# Label requests.
[query]
strategy = "margin"         # uncertain predictions first; or "entropy", "least_confident",
                            # "vote_entropy", "random", or "all"
budget = 0.1                # share of the records whose label may be requested
# burst = 20                # requests over any n records stay within budget * n + burst
# audit = 0.1               # share of the budget spent at random, to estimate accuracy by
# relabel = 0.0             # share of the budget for relabel requests of labels that look wrong
# evaluation_labels = 200   # minimum number of labels of the recent estimates
# window = 200              # the newest records, among which a new one is ranked, or the pool
# Seldom needed: another way to choose among the records, and labels ahead of the budget.
# mode = "stream"           # decide on arrival; or "pool": ask for the best of the newest records
# query_batch_size = 1      # with "pool": how many are asked for together
# selection = "probability" # how "stream" decides: at random, doubtful records with better chances;
                            # or "quantile_filter", "variable_uncertainty"
# initial_credit = 0        # labels to start with, repaid evenly until record stream_length
# stream_length = "none"    # length of the stream; initial_credit needs it

# What is trained. "none" means no value here and below.
[committee]
estimator = "sketch"        # or "gamble"
# label_lags = 0            # number of newest known labels that are features too
# experts = "all"           # experts in addition to the committee; or "committee", or a list
# calibrate = true          # probabilities at the temperature that suits the labels asked for
# n_estimators = 150        # rounds of a training
# learning_rate = 0.2
# max_leaf_nodes = 6
# Rarely needed: growth of the trees.
# min_child_weight = 0.02   # least second derivative in a leaf ("gamble": least weight)
# l2_regularization = 0.3   # larger values hold back leaves of few records
# max_bins = "none"         # bins of a feature's values; none: by the number of records
# max_depth = "none"        # of a tree, from one split on; none: max_leaf_nodes decides
# max_features = "none"     # share of the features a tree may use; none: by their number
# subsample = 1.0           # share of the records a tree is grown on

# The labelled records that training sees.
[working_set]
# kind = "sliding"          # the newest; or "time", "reservoir" (of all), "balanced" (by class)
# size = 40000              # maximum number of labelled records, for all kinds
# seconds = "none"          # given with kind = "time" and only then: how long one stays
# Seldom needed: what each weighs.
# weights = "uniform"       # or "half_life", or "zipf": 1/i for the i-th newest
# half_life = "none"        # given with weights = "half_life" and only then, in records
# propensity_clip = "none"  # a number: weight 1/inclusion probability, at most this number

# When training happens: looked at with each label.
[schedule]
# first = 2                 # least labels for the first training
# growth = 1.05             # factor by which labels grow from one retraining to the next
# retrain_every = 500       # most labels from one retraining to the next
# extend_every = 10         # labels from one training to an extension; none: no extension
# extend_estimators = 10    # rounds that an extension adds
# max_estimators = 400      # a committee that would grow past it is retrained
# training = "inline"       # or "background": in a thread, while predicting continues
# promotion = "always"      # or "better": once it makes no more errors than the one that serves
# on_drift = "none"         # "adwin", "page_hinkley" or "kswin" looks for drift, and retrains
# drift_signal = "error"    # in wrong answers; or "margin", without labels; or "both"
# Seldom needed: training by the clock, labels that follow one another.
# retrain_seconds = "none"  # most seconds from one retraining to the next
# extend_seconds = "none"   # seconds from one training to an extension
# n_evaluation_labels = 200 # most labels by which "better" is judged
# correction_rounds = 0     # stumps grown again at every label; 5 where labels follow one another
# correction_rows = 50      # number of newest labels that they are grown on
# correction_half_life = 5.0  # labels after which one of these weighs half as much

# Monitoring: /healthz, /readyz, and /metrics for Prometheus, which needs the token in metrics.token
# of the state folder. The status is written to status.db of that folder.
[monitor]
{monitor}

# Labelling in the pages of `streamboost serve`.
[serve]
{serve}

# Messages about the pipeline to a webhook, such as Slack's:
#   [notify]
#   url = "${NOTIFY_URL}"
#   secret = "${NOTIFY_SECRET}"   # signs the messages; base64 of at least 24 bytes
#   events = ["requests", "regression", "drift", "budget", "down", "up"]
#   every = 60.0                  # minimum number of seconds between two messages

# With `streamboost label-studio`, annotators can answer in a project of Label Studio:
#   [label_studio]
#   url = "http://localhost:8080"
#   project = 1
#   token = "${LABEL_STUDIO_TOKEN}"

# A River classifier may replace the committee, or run as a shadow model. A function of a module in
# this file's folder returns the classifier:
#   [model]
#   river = "models:hoeffding"             # or, if records carry the predictions of another system:
#   prediction_field = "score"             # a label, or a map or list of probabilities by class
#   [shadow_models.nb]
#   river = "models:bayes"

# A River transformer may compute the fields of records before they are predicted and learned:
#   [features]
#   river = "models:aggregates"

# Decisions in addition to the predicted label, by the costs of errors or by the least probability
# of a class. They may change at any time, also by `streamboost control ... decide`:
#   [decision]
#   costs = { fraud = { ok = 10 } }    # to decide on "ok" where "fraud" is true; other errors: 1
#   threshold = { fraud = 0.9 }        # or this; below it, the likeliest of the other classes
"""


def render_template(*, kafka: bool = False) -> str:
    """Return the text of a pipeline file with all keys and their defaults.

    With `kafka`, the inputs and outputs are Kafka topics.
    """
    about, connectors = (_KAFKA_ABOUT, _KAFKA) if kafka else (_RIVER_ABOUT, _RIVER)
    text = about + _JOB + connectors + _LEARNER
    for name, (model, given) in _GIVEN.items():
        text = text.replace(f"{{{name}}}\n", _render_section_keys(model, given))
    return text


def _render_section_keys(model: type[Section], given: dict[str, Any]) -> str:
    """Return a line for each key of a section: the key, a value, and the description as comment.

    The value is from `given`, otherwise the default, otherwise an example.
    """
    lines = []
    for key, field in model.model_fields.items():
        example = (field.examples or [""])[0]
        value = given.get(key, example if field.default is None else field.default)
        setting = f"{'' if key in given else '# '}{key} = {toml.format_value(value)}"
        choices = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
        others = ", ".join(toml.format_value(one) for one in choices if one != value)
        lines.append(f"{setting:<27} # {field.description}{f'; or {others}' if others else ''}\n")
    return "".join(lines)
