"""Validation of a pipeline file with distributed scoring, with the message of each error."""

import pytest

from streamboost.errors import ConfigurationError
from streamboost.pipelines.config.file import parse

BASE = {
    "pipeline": {"name": "test", "scoring": "distributed"},
    "kafka": {"bootstrap_servers": "a:1"},
    "source": {"connector": "kafka"},
}


def made(tmp_path, **tables):
    whole = {name: BASE.get(name, {}) | tables.get(name, {}) for name in BASE | tables}
    return parse(whole, tmp_path, environment={})


def test_spans_are_times_and_experts_are_those_that_scorers_hold(tmp_path):
    config = made(tmp_path)
    assert config.is_distributed
    assert config.sections.pipeline.join_window == "1m"
    assert config.sections.requests.expires_after == "1d"
    assert config.learner_config.experts == ("committee", "linear", "text")
    assert made(tmp_path, committee={"experts": "committee"}).learner_config.experts == (
        "committee",
    )


def test_recorded_predictions_are_evaluated_with_it(tmp_path):
    schema = {"classes": ["a", "b"]}
    config = made(tmp_path, model={"prediction_field": "score"}, schema=schema)
    assert config.sections.prediction_field == "score"


def test_without_it_nothing_changes(tmp_path):
    config = made(tmp_path, pipeline={"name": "test", "scoring": "local"})
    assert config.sections.pipeline.join_window == 10_000
    assert config.learner_config.experts[1:3] == ("correction", "neighbours")


@pytest.mark.parametrize(
    ("section", "keys", "told"),
    [
        ("pipeline", {"join_window": 500}, r"join_window: is 500 records.* set a time"),
        ("requests", {"connector": "kafka", "expires_after": 9}, "expires_after: is 9 records"),
        ("query", {"mode": "pool"}, 'mode: must be "stream"'),
        (
            "query",
            {"initial_credit": 5, "stream_length": 9_000},
            "initial_credit: must be 0 .* partitions have separate budgets",
        ),
        (
            "query",
            {"relabel": 0.2, "selection": "quantile_filter"},
            'relabel: needs selection = "probability"',
        ),
        ("committee", {"label_lags": 1}, "label_lags: must be 0"),
        (
            "committee",
            {"experts": "all"},
            "experts: must not have all .* have committee, linear, text",
        ),
        (
            "committee",
            {"experts": ["committee", "neighbours"]},
            "experts: must not have neighbours",
        ),
        ("schedule", {"correction_rounds": 4}, "correction_rounds: must be 0"),
        (
            "schedule",
            {"on_drift": "adwin", "drift_signal": "both"},
            'drift_signal: must be "error"',
        ),
        ("kafka", {"transactions": False}, "transactions: must be true"),
        ("source", {"connector": "river", "dataset": "Phishing"}, 'connector: must be "kafka"'),
        ("labels", {"connector": "sqlite", "stream": "l"}, 'connector: must be "kafka" .* scoring'),
        ("predictions", {"connector": "files", "path": "p"}, 'connector: must be "kafka"'),
        ("labels", {"connector": "inline"}, 'connector: must be "kafka" .* scoring'),
        (
            "predictions",
            {"connector": "kafka", "format": "avro"},
            r'\[predictions\] format: must be "json" with',
        ),
        ("model", {"river": "models:one"}, "scorers only have committees"),
        ("shadow_models", {"nb": {"river": "models:one"}}, "scorers only have committees"),
        ("features", {"river": "models:one"}, "scorers only have committees"),
        ("decision", {"threshold": {"a": 0.9}}, "decide by `probabilities` of .predictions"),
    ],
)
def test_what_does_not_go_with_it_is_refused(tmp_path, section, keys, told):
    with pytest.raises(ConfigurationError, match=told):
        made(tmp_path, **{section: keys})
