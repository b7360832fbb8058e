"""Changes of a pipeline file between two runs on one state: every key is tried."""

import pytest

from streamboost.errors import StateError
from streamboost.pipelines.config import compatibility, toml
from streamboost.pipelines.config.compatibility import (
    fingerprint,
    store_config,
    verify_compatibility,
)
from streamboost.pipelines.config.file import parse
from streamboost.pipelines.state.folder import State

STREAMS = ("labels", "predictions", "requests", "dead_letters")
OUTPUTS = STREAMS[1:]
BASES = {
    "sqlite": {
        "source": {"connector": "files", "path": "a"},
        **{name: {"connector": "sqlite", "stream": name} for name in STREAMS},
    },
    "kafka": {
        "kafka": {"bootstrap_servers": "a:1"},
        "source": {"connector": "kafka"},
        **{name: {"connector": "kafka"} for name in STREAMS},
    },
}

MAY_CHANGE = {
    "pipeline": {
        "state": "elsewhere",
        "batch_records": 7,
        "batch_labels": 7,
        "poll_interval": 2.0,
        "checkpoint_every": 7,
        "checkpoint_copy": "copies",
        "retention": "7d",
        "on_data_loss": "continue",
        "keep_versions": 3,
        "encoder_threads": 2,
    },
    "monitor": {
        "port": 9000,
        "publish_every": 7.0,
        "host": "0.0.0.0",
        "allowed_hosts": ["pipeline"],
        "certificate": "cert.pem",
        "key": "key.pem",
        "allow_insecure_http": True,
    },
    "serve": {"blind": True},
    "schema": {"classes": ["grass", "sky"]},
}
MAY_CHANGE_SQLITE = {
    "source": {"follow": True},
    **{name: {"connector": "files", "stream": "other", "path": "o.db"} for name in OUTPUTS},
}
MAY_CHANGE_KAFKA = {
    "source": {"on_corrupt": "skip"},
    "labels": {"on_corrupt": "skip"},
    **{name: {"topic": "other"} for name in OUTPUTS},
    "kafka": {"bootstrap_servers": "b:1", "linger_ms": 7},
}
MUST_NOT = {
    "pipeline": {"name": "other", "seed": 7, "join_window": 7},
    "schema": {
        "id": "key",
        "time": "at",
        "label": "integer",
        "numeric": ["a"],
        "exclude": ["a"],
        "max_record_bytes": 7,
    },
    "requests": {"expires_after": 7},
    "labels": {"on_conflict": "vote"},
    "initial_data": {"path": "known.csv", "committee": "model.safetensors"},
    "committee": {
        "estimator": "gamble",
        "calibrate": False,
        "experts": ["committee", "linear"],
        "l2_regularization": 0.7,
        "label_lags": 2,
        "learning_rate": 0.7,
        "max_bins": 7,
        "max_depth": 7,
        "max_features": 0.7,
        "max_leaf_nodes": 7,
        "min_child_weight": 0.7,
        "n_estimators": 7,
        "subsample": 0.7,
    },
    "query": {
        "strategy": "random",
        "audit": 0.2,
        "budget": 0.2,
        "burst": 7,
        "stream_length": 700,
        "initial_credit": 7,
        "mode": "pool",
        "relabel": 0.2,
        "evaluation_labels": 100,
        "query_batch_size": 7,
        "selection": "quantile_filter",
        "window": 70,
    },
    "schedule": {
        "correction_half_life": 7.0,
        "correction_rounds": 7,
        "correction_rows": 7,
        "drift_signal": "margin",
        "extend_estimators": 7,
        "extend_every": 7,
        "extend_seconds": 7,
        "first": 7,
        "growth": 1.7,
        "max_estimators": 700,
        "on_drift": "adwin",
        "promotion": "better",
        "retrain_every": 7,
        "retrain_seconds": 7,
        "n_evaluation_labels": 7,
        "training": "background",
    },
    "working_set": {
        "half_life": 7.0,
        "kind": "reservoir",
        "propensity_clip": 7.0,
        "seconds": 7.0,
        "size": 7,
        "weights": "zipf",
    },
}
MUST_NOT_SQLITE = {
    "source": {"connector": "river", "path": "b"},
    "labels": {"connector": "files", "stream": "other", "path": "o.db", "fields": {"label": "y"}},
}
MUST_NOT_KAFKA = {
    "pipeline": {"scoring": "distributed"},
    "source": {"topic": "other"},
    "labels": {"topic": "other"},
    "kafka": {"transactions": False},
}
WITH = {
    ("monitor", "host"): {"allow_insecure_http": True},
    ("monitor", "certificate"): {"key": "key.pem"},
    ("monitor", "key"): {"certificate": "cert.pem"},
    ("source", "connector"): {"dataset": "Phishing"},
    **{(name, "connector"): {"path": f"{name}.jsonl"} for name in STREAMS},
    ("query", "query_batch_size"): {"mode": "pool"},
    ("query", "stream_length"): {"initial_credit": 7},
    ("query", "initial_credit"): {"stream_length": 700},
    ("working_set", "half_life"): {"weights": "half_life"},
    ("working_set", "seconds"): {"kind": "time"},
}
"""Other keys that a key requires in its section."""


def pairs(*tables):
    return [
        (s, key, value)
        for table in tables
        for s, keys in table.items()
        for key, value in keys.items()
    ]


CASES = [
    *(("sqlite", *case, True) for case in pairs(MAY_CHANGE, MAY_CHANGE_SQLITE)),
    *(("kafka", *case, True) for case in pairs(MAY_CHANGE_KAFKA)),
    *(("sqlite", *case, False) for case in pairs(MUST_NOT, MUST_NOT_SQLITE)),
    *(("kafka", *case, False) for case in pairs(MUST_NOT_KAFKA)),
]


def made(folder, base, section="pipeline", **keys):
    tables = {"pipeline": {"name": "test"}} | BASES[base]
    before = {} if "connector" in keys else tables.get(section, {})
    return parse(tables | {section: before | keys}, folder, environment={})


@pytest.mark.parametrize(
    ("base", "section", "key", "value", "may"),
    CASES,
    ids=[f"{base}-{section}-{key}" for base, section, key, *_ in CASES],
)
def test_a_changed_key_is_taken_or_refused_with_what_it_was(
    tmp_path, monkeypatch, base, section, key, value, may
):
    monkeypatch.setattr(compatibility, "_ITERATIONS", 1)
    state, before = State(tmp_path / "state"), made(tmp_path, base)
    after = made(tmp_path, base, section, **WITH.get((section, key), {}), **{key: value})
    with state.hold_lock():
        store_config(before, state, state_has_begun=False)
        if may:
            store_config(after, state, state_has_begun=True)
            assert state.fingerprint() == fingerprint(before, state.fingerprint().partition(":")[0])
            return
        with pytest.raises(StateError) as told:
            store_config(after, state, state_has_begun=True)
    was = before.written[section].get(key)
    was = "not set" if was is None else toml.format_value(was)
    assert f"[{section}] {key} was {was} and is {toml.format_value(value)}" in str(told.value)
    anew = "and name to new ones" if after.commits_to_kafka else "to a new folder"
    assert f"set [pipeline] state {anew} to start with an empty state" in str(told.value)


@pytest.mark.parametrize("base", BASES)
def test_no_key_is_left_out(tmp_path, base):
    written = made(tmp_path, base).written
    there = {(section, key) for section, keys in written.items() for key in keys}
    assert there <= {(section, key) for _, section, key, *_ in CASES}


@pytest.mark.parametrize(("scoring", "command"), [("local", "run"), ("distributed", "learn")])
def test_a_lost_state_is_made_again_by_the_command_that_keeps_it(tmp_path, scoring, command):
    tables = {
        "pipeline": {"name": "p", "scoring": scoring},
        "kafka": {"bootstrap_servers": "a:1"},
        "source": {"connector": "kafka"},
    }
    config = parse(tables, tmp_path, environment={})
    with pytest.raises(
        StateError, match=rf"`streamboost {command} --rebuild`; to start with an empty state, set"
    ):
        verify_compatibility(config, State(tmp_path / "state"), state_has_begun=True)
