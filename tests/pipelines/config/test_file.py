import re
import tomllib
from pathlib import Path
from typing import get_args

import pytest

from streamboost.connectors.kafka.journal import journal_topic
from streamboost.connectors.messages.schema import Schema
from streamboost.errors import ConfigurationError
from streamboost.learner.estimators import default_estimator
from streamboost.pipelines.config import toml
from streamboost.pipelines.config.compatibility import fingerprint, unchangeable_settings
from streamboost.pipelines.config.connectors.formats import open_schema_registry
from streamboost.pipelines.config.connectors.registry import ENDPOINTS, section_classes
from streamboost.pipelines.config.file import load, parse
from streamboost.pipelines.config.learner import STRATEGIES
from streamboost.pipelines.config.templates import brief
from streamboost.pipelines.config.templates.every import render_template
from streamboost.pipelines.distributed.topics import models_topic, scoring_log_topic
from streamboost.stacking.experts import EXPERTS

CONNECTOR_NAMES = ", ".join(
    repr(get_args(section.model_fields["connector"].annotation)[0])
    for section in section_classes("labels")
)
STRATEGY_NAMES = ", ".join(f'"{strategy}"' for strategy in STRATEGIES)


LEAST = {
    "pipeline": {"name": "test"},
    "source": {"connector": "files", "path": "records.jsonl"},
}


RIVER = LEAST | {"source": {"connector": "river", "dataset": "Phishing"}}


def made(folder, environment=None, base=LEAST, **sections):
    merged = {name: base.get(name, {}) | sections.get(name, {}) for name in base | sections}
    return parse(merged, folder, name="test.toml", environment=environment or {})


def problems(folder, environment=None, base=LEAST, **sections):
    with pytest.raises(ConfigurationError) as caught:
        made(folder, environment, base, **sections)
    lines = str(caught.value).removeprefix("test.toml: ").splitlines()
    return [line.strip() for line in lines if not line.endswith("problems:")]


def test_name_and_source_are_enough(tmp_path):
    config = made(tmp_path)
    assert config.name == "test"
    assert config.state == tmp_path / "state"
    assert config.sections.predictions.stream == "predictions"
    assert config.learner_config.estimator.get_params() == default_estimator().get_params()
    assert config.learner_config.query.budget == 0.05


def test_an_unknown_key_is_refused_with_its_section_and_the_nearest_known_key(tmp_path):
    assert problems(tmp_path, pipeline={"naem": "x"}) == [
        "[pipeline] naem: unknown key; did you mean name?"
    ]
    assert problems(tmp_path, source={"pth": "x"}) == [
        "[source] pth: unknown key; did you mean path?"
    ]
    assert problems(tmp_path, query={"budgt": 0.1}) == [
        "[query] budgt: unknown key; did you mean budget?"
    ]
    assert problems(tmp_path, committee={"max_leaves": 8}) == [
        "[committee] max_leaves: unknown key; did you mean max_leaf_nodes?"
    ]


def test_a_key_like_no_other_is_refused_with_the_keys_there_are(tmp_path):
    (line,) = problems(tmp_path, working_set={"zzz": 1})
    keys = "half_life, kind, propensity_clip, seconds, size, weights"
    assert line == f"[working_set] zzz: unknown key; its keys are {keys}"


@pytest.mark.parametrize("mode", ["stream", "pool"])
def test_the_deleted_rule_is_refused_with_the_rules_there_are(tmp_path, mode):
    assert problems(tmp_path, query={"selection": "pace", "mode": mode}) == [
        "[query] selection: query selection 'pace' is not known: choose one of probability, "
        "quantile_filter, variable_uncertainty"
    ]


def test_a_deleted_key_is_refused_with_the_remedy(tmp_path):
    assert problems(tmp_path, schedule={"at_limit": "drop_oldest"}) == [
        "[schedule] at_limit: this key no longer exists; delete it, as a committee at "
        "max_estimators is always retrained"
    ]


@pytest.mark.parametrize(
    ("section", "keys", "said"),
    [
        ("bootstrap", {"path": "known.csv"}, "it is now called [initial_data]"),
        ("rivals", {"nb": {"river": "m:f"}}, "it is now called [shadow_models]"),
        ("pipeline", {"name": "test", "on_gap": "stop"}, "on_gap: unknown key; .* on_data_loss"),
        ("pipeline", {"name": "test", "scoring": "apart"}, '"apart" is now "distributed"'),
        ("pipeline", {"name": "test", "scoring": "here"}, '"here" is now "local"'),
        ("pipeline", {"name": "test", "on_data_loss": "stop"}, '"stop" is now "fail"'),
        ("query", {"rule": "chance"}, "rule: unknown key; it is now called selection"),
        ("query", {"selection": "chance"}, 'selection: .*; "chance" is now "probability"'),
        ("query", {"utility": "margin"}, "it is now called strategy"),
        ("query", {"loan": 5}, "it is now called initial_credit"),
        ("query", {"expected_records": 9}, "it is now called stream_length"),
        ("query", {"round_size": 2}, "it is now called query_batch_size"),
        ("schedule", {"shadow": 20}, "it is now called n_evaluation_labels"),
        ("committee", {"experts": ["committee", "words"]}, '"words" is now "text"'),
        ("committee", {"experts": ["committee", "sequence"]}, '"sequence" is now "transitions"'),
        ("labels", {"connector": "answers", "path": "a.csv"}, '"answers" is now "oracle"'),
        ("labels", {"connector": "records"}, '"records" is now "inline"'),
        (
            "labels",
            {"connector": "oracle", "path": "a.csv", "of": "all"},
            "it is now called answer",
        ),
        (
            "labels",
            {"connector": "oracle", "path": "a.csv", "answer": "requests"},
            '"requests" is now "requested"',
        ),
        ("monitor", {"address": "::1"}, "it is now called host"),
        ("monitor", {"names": ["a"]}, "it is now called allowed_hosts"),
        ("monitor", {"allow_plain": True}, "it is now called allow_insecure_http"),
    ],
)
def test_a_former_name_is_refused_with_the_new_one(tmp_path, section, keys, said):
    (line,) = problems(tmp_path, **{section: keys})
    assert re.search(re.escape(said) if said.startswith("it") else said, line), line
    assert line.startswith(f"[{section}]")


def test_an_unknown_section_is_refused_with_the_nearest_known_one(tmp_path):
    assert problems(tmp_path, qeury={"budget": 0.1}) == [
        "[qeury]: unknown section; did you mean [query]?"
    ]


def test_parameters_that_follow_from_other_keys_are_no_keys(tmp_path):
    (line,) = problems(tmp_path, committee={"random_state": 1})
    assert line.startswith("[committee] random_state: unknown key")


def test_label_lags_stand_before_the_features_as_categories(tmp_path):
    core = made(tmp_path, committee={"label_lags": 2}).learner_config
    assert core.estimator.get_params()["categorical_features"] == [0, 1]
    assert core.build_learner(Schema(numeric=["a", "b", "c"]), seed=0).n_features == 5
    assert core.settings["committee"]["label_lags"] == 2
    assert (
        made(tmp_path)
        .learner_config.build_learner(Schema(numeric=["a", "b", "c"]), seed=0)
        .n_features
        == 3
    )


@pytest.mark.parametrize("wrong", [-1, 1.5, True, "none"])
def test_label_lags_that_are_no_number_are_refused(tmp_path, wrong):
    (line,) = problems(tmp_path, committee={"label_lags": wrong})
    assert line.startswith("[committee] label_lags")
    assert "give a whole number of at least 0" in line


def test_everything_that_is_wrong_is_reported_at_once(tmp_path):
    found = problems(
        tmp_path,
        pipeline={"name": "a b", "seed": -1, "batch_records": "many", "state": ""},
        schema={"label": "text", "numeric": []},
        source={"path": "${NOWHERE}"},
        requests={"connector": "sqlite", "stream": "requests", "expires_after": "soon"},
        committee={"max_bins": 1000, "learning_rate": -1.0, "depth": 2},
        working_set={"size": 0},
        schedule={"growth": 0.5},
        query={"budget": 3, "burst": 0, "strategy": "repeat_last"},
    )
    assert sorted(line.split(":")[0] for line in found) == sorted(
        [
            "[source] path",
            "[pipeline] name",
            "[pipeline] state",
            "[pipeline] seed",
            "[pipeline] batch_records",
            "[schema] label",
            "[schema] numeric",
            "[requests] expires_after",
            "[query] strategy",
            "[committee] depth",
            "[committee] max_bins",
            "[committee] learning_rate",
            "[working_set] size",
            "[schedule] growth",
            "[query] budget",
            "[query] burst",
        ]
    )


@pytest.mark.parametrize(
    ("section", "values", "said"),
    [
        ("pipeline", {"seed": "7"}, "seed: must be a whole number, and is '7'"),
        ("pipeline", {"seed": -1}, "seed: must be at least 0, and is -1"),
        ("pipeline", {"poll_interval": 0}, "poll_interval: must be greater than 0, and is 0"),
        (
            "schema",
            {"label": "text"},
            "label: must be 'auto', 'string', 'integer' or 'boolean', and is 'text'",
        ),
        (
            "schema",
            {"numeric": "a"},
            "numeric: must be \"auto\" or a list of field names, and is 'a'",
        ),
        ("labels", {}, "connector: missing: which connector to use"),
        (
            "labels",
            {"connector": "pulsar"},
            f"connector: must be one of {CONNECTOR_NAMES}, and is 'pulsar'",
        ),
        ("predictions", {"connector": "files"}, "path: missing: file to append to"),
        (
            "query",
            {"strategy": "repeat_last"},
            f"strategy: must be one of {STRATEGY_NAMES}, and is 'repeat_last'",
        ),
        (
            "query",
            {"strategy": "all", "budget": 0.5},
            'budget: does not apply to strategy "all", which requests every label: delete this key',
        ),
        (
            "committee",
            {"max_bins": 1000},
            "max_bins: max_bins of SketchLogitBoost must be an integer in [2, 255] or None, "
            "and is 1000",
        ),
    ],
)
def test_a_problem_is_put_into_words(tmp_path, section, values, said):
    assert problems(tmp_path, **{section: values}) == [f"[{section}] {said}"]


def floats():
    for estimator in ("sketch", "gamble"):
        settings = made(Path(), committee={"estimator": estimator}).written
        for section, values in settings.items():
            for key, value in values.items():
                if isinstance(value, float):
                    yield section, key, estimator
    for key in ("half_life", "seconds", "propensity_clip"):
        yield "working_set", key, "sketch"
    for key in ("retrain_seconds", "extend_seconds"):
        yield "schedule", key, "sketch"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize(("section", "key", "estimator"), list(floats()))
def test_a_number_that_is_not_finite_is_one_problem_of_its_key(
    tmp_path, section, key, estimator, value
):
    sections = {"committee": {"estimator": estimator}}
    needed = {"half_life": {"weights": "half_life"}, "seconds": {"kind": "time"}}.get(key, {})
    sections[section] = sections.get(section, {}) | needed | {key: value}
    (line,) = problems(tmp_path, **sections)
    assert line.startswith(f"[{section}]")
    assert key in line
    assert str(value) in line


def test_what_the_schema_refuses_is_a_problem_of_the_file(tmp_path):
    (line,) = problems(tmp_path, schema={"numeric": ["a", "a"]})
    assert line.startswith("[schema]: names the field 'a' twice")


def test_what_should_be_a_section_and_is_not_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match=r"\[query\]: must be a section with keys"):
        parse({**LEAST, "query": 3}, tmp_path, environment={})
    with pytest.raises(ConfigurationError, match=r"\[source\]: this section is missing"):
        parse({"pipeline": {"name": "x"}}, tmp_path, environment={})


def test_two_outputs_in_one_place_are_refused(tmp_path):
    (line,) = problems(tmp_path, requests={"connector": "sqlite", "stream": "predictions"})
    assert (
        line
        == "[requests]: has the same location as [predictions]: set a separate location for each"
    )


def test_an_oracle_needs_the_requests_in_a_log(tmp_path):
    oracle = {"connector": "river", "dataset": "Phishing"}
    requests = {"connector": "files", "path": "requests.jsonl"}
    assert problems(tmp_path, base=RIVER, labels=oracle, requests=requests) == [
        '[requests] connector: must be "sqlite": [labels] "river" reads the requests from a log'
    ]


def test_an_oracle_needs_records_that_are_counted_and_a_file_counts_bytes(tmp_path):
    oracle = {"connector": "river", "dataset": "Phishing", "delay": 5}
    (line,) = problems(tmp_path, labels=oracle)
    assert line.startswith('[labels] connector: must not be "river" if [source] is "files"')
    made(tmp_path, base=RIVER, labels=oracle)


def test_places_are_compared_by_where_they_are(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    for path in ("./records.jsonl", "link/records.jsonl", str(tmp_path / "records.jsonl")):
        (line,) = problems(tmp_path, predictions={"connector": "files", "path": path})
        assert (
            line
            == "[predictions]: has the same location as [source]: set a separate location for each"
        )
    log = {"connector": "sqlite", "path": "state/log.db"}
    (line,) = problems(tmp_path, labels=log | {"stream": "predictions"})
    assert (
        line == "[predictions]: has the same location as [labels]: set a separate location for each"
    )
    made(tmp_path, predictions=log | {"stream": "other"})


def test_records_with_their_labels_are_told_to_answer(tmp_path):
    (line,) = problems(tmp_path, labels={"connector": "files", "path": "records.jsonl"})
    assert line == (
        "[labels]: has the same location as [source]: set a separate location for each, or let "
        'the records answer requests: connector = "oracle"'
    )


def test_a_file_of_lines_and_a_log_cannot_be_one(tmp_path):
    (line,) = problems(
        tmp_path,
        predictions={"connector": "files", "path": "out"},
        requests={"connector": "sqlite", "path": "out", "stream": "requests"},
    )
    assert (
        line
        == "[requests]: has the same location as [predictions]: set a separate location for each"
    )


@pytest.mark.parametrize("name", ["commands.db", "log.db", "deep/er", "../state/fingerprint"])
def test_no_output_is_a_file_of_the_state(tmp_path, name):
    found = problems(tmp_path, predictions={"connector": "files", "path": f"state/{name}"})
    assert "[predictions] path: is in the state folder" in "\n".join(found)
    other = {"connector": "sqlite", "path": "state/other.db", "stream": "x"}
    (line,) = problems(tmp_path, dead_letters=other)
    assert line.startswith("[dead_letters] path: is in the state folder")


def test_the_name_is_written_out(tmp_path):
    (line,) = problems(tmp_path, {"WHO": "ada"}, pipeline={"name": "${WHO}"})
    assert line.startswith("[pipeline] name: must not depend on a variable")


def test_strategy_all_buys_every_label(tmp_path):
    query = made(tmp_path, query={"strategy": "all"}).learner_config.query
    assert (query.strategy, query.budget, query.audit) == ("random", 1.0, 0.0)


def test_queries_take_a_utility_a_rule_and_a_loan(tmp_path):
    keys = {"strategy": "entropy", "selection": "quantile_filter", "budget": 0.1}
    initial_credit = {"initial_credit": 5, "stream_length": 1_000}
    query = made(tmp_path, query=keys | initial_credit).learner_config.query
    assert (query.strategy, query.selection) == ("entropy", "quantile_filter")
    assert (query.initial_credit, query.stream_length) == (5, 1_000)


def test_a_pool_needs_records_to_be_held_for_as_long_as_they_may_be_asked_for(tmp_path):
    pool = {"mode": "pool", "window": 300}
    for held in (200, "2h"):
        (line,) = problems(tmp_path, pipeline={"join_window": held}, query=pool)
        assert line.startswith('[query] mode: "pool" may request any of the newest 300 records')
    assert (
        made(tmp_path, pipeline={"join_window": 300}, query=pool).learner_config.query.mode
        == "pool"
    )


def test_the_text_none_stands_for_no_limit(tmp_path):
    config = made(tmp_path, schedule={"retrain_every": "none", "max_estimators": "none"})
    assert config.learner_config.schedule.retrain_every is None
    assert 'retrain_every = "none"' in config.to_toml()
    assert 'max_depth = "none"' in config.to_toml()
    (line,) = problems(tmp_path, schedule={"growth": "none"})
    assert line.startswith("[schedule] growth: schedule growth is None")


def test_of_keys_that_are_wrong_together_none_is_blamed_alone(tmp_path):
    values = {"weights": "half_life", "half_life": -1.0, "size": 0}
    found = problems(tmp_path, working_set=values)
    assert found[0].startswith("[working_set] size: working set size is 0")
    assert found[1].startswith("[working_set]: working set half_life is -1.0")
    assert len(found) == 2


@pytest.mark.parametrize("strategy", ["margin", "random", "all"])
def test_what_is_shown_may_be_fed_back(tmp_path, strategy):
    config = made(tmp_path, query={"strategy": strategy})
    again = parse(tomllib.loads(config.to_toml()), tmp_path, environment={})
    assert again.learner_config.settings == config.learner_config.settings
    assert ("budget" in config.written["query"]) == (strategy != "all")


def test_a_gamble_committee_has_its_own_parameters(tmp_path):
    config = made(tmp_path, committee={"estimator": "gamble", "n_estimators": 7})
    assert type(config.learner_config.estimator).__name__ == "GambleClassifier"
    assert config.learner_config.estimator.get_params()["n_estimators"] == 7


def test_a_variable_takes_its_value_from_the_environment(tmp_path):
    config = made(tmp_path, {"WHERE": "here"}, source={"path": "${WHERE}/${WHERE}.jsonl"})
    assert config.sections.source.path == "here/here.jsonl"


def test_a_variable_that_is_not_set_is_named_with_its_key(tmp_path):
    assert problems(tmp_path, source={"path": "${WHERE}"}) == [
        "[source] path: the environment variable WHERE is not set: set it before starting"
    ]


def test_a_secret_is_shown_nowhere(tmp_path):
    secret = {"SECRET": "hunter2", "KIND": "hunter3"}
    config = made(tmp_path, secret, source={"path": "${SECRET}"})
    assert 'path = "${SECRET}"' in config.to_toml()
    assert "hunter2" not in config.to_toml() + repr(config.written)
    found = problems(
        tmp_path,
        secret,
        labels={"connector": "${KIND}"},
        pipeline={"seed": "${SECRET}"},
        query={"budget": "${SECRET}", "strategy": "${SECRET}"},
        committee={"max_bins": "${SECRET}"},
    )
    found += problems(tmp_path, secret, schema={"numeric": ["${SECRET}", "${SECRET}"]})
    assert len(found) == 6
    assert not re.search("hunter", "\n".join(found))


@pytest.mark.parametrize(
    "value", ['it\'s \\ "so" ', "a'b", 'a"b', "tab\t", "~/hunter2", "../hunter2/"]
)
def test_a_value_is_masked_in_whatever_form_it_is_told(tmp_path, value):
    config = made(tmp_path, {"SECRET": value, "EMPTY": ""}, source={"path": "${SECRET}${EMPTY}"})
    path = config.resolve_path(config.sections.source.path)
    within = f"\"it's {value}"
    for told in (
        value,
        repr(value),
        repr(within),
        str(path / "x"),
        str(path.expanduser().resolve()),
    ):
        masked = config.mask(f"there is no {told}, no")
        assert "${SECRET}" in masked
        assert "EMPTY" not in masked
        assert value.strip("~./") not in masked


def test_a_value_that_holds_another_is_masked_as_one(tmp_path):
    config = made(tmp_path, {"A": "/srv", "B": "/srv/b"}, source={"path": "${A}${B}"})
    assert config.mask("no /srv/b, no /srv") == "no ${B}, no ${A}"


def test_a_changed_value_of_the_environment_changes_the_fingerprint(tmp_path):
    def told(value, salt="salt", **sections):
        return fingerprint(made(tmp_path, {"S": value}, **sections), salt)

    path, strategy = {"source": {"path": "${S}"}}, {"query": {"strategy": "${S}"}}
    assert told("one", **path) == told("one", **path)
    assert told("one", **path) != told("other", **path)
    assert told("margin", **strategy) != told("random", **strategy)
    free = {"predictions": {"connector": "files", "path": "${S}"}}
    assert told("one", **free) == told("other", **free)
    assert told("one", "other", **path).partition(":")[2] not in told("one", **path)


def test_where_requests_go_is_bound_where_a_dataset_answers_them(tmp_path):
    oracle = {"labels": {"connector": "river", "dataset": "Phishing"}}
    elsewhere = {"requests": {"connector": "sqlite", "stream": "other"}}
    for labels, is_bound in (({}, False), (oracle, True)):
        prints = {
            fingerprint(made(tmp_path, base=RIVER, **labels, **sections), "salt")
            for sections in ({}, elsewhere)
        }
        assert len(prints) == 1 + is_bound


def test_the_fingerprint_changes_with_what_the_state_depends_on_and_only_then(tmp_path):
    base = fingerprint(made(tmp_path), "salt")
    for sections in (
        {"pipeline": {"batch_records": 7, "batch_labels": 7, "poll_interval": 2.0}},
        {"pipeline": {"state": "elsewhere"}},
        {"source": {"follow": True}},
        {"source": {"path": "./folder/../records.jsonl"}},
        {"source": {"path": str(tmp_path / "records.jsonl")}},
        {"predictions": {"connector": "files", "path": "out.jsonl"}},
        {"query": {"budget": 0.05}},
    ):
        assert fingerprint(made(tmp_path, **sections), "salt") == base
    for sections in (
        {"pipeline": {"seed": 7}},
        {"source": {"path": "others.jsonl"}},
        {"pipeline": {"join_window": 7}},
        {"requests": {"connector": "sqlite", "stream": "requests", "expires_after": 7}},
        {"committee": {"n_estimators": 7}},
        {"query": {"budget": 0.06}},
        {"schema": {"time": "at"}},
    ):
        assert fingerprint(made(tmp_path, **sections), "salt") != base


def test_the_written_configuration_reads_back_as_itself(tmp_path):
    config = made(
        tmp_path, schema={"numeric": ["a", "b"], "time": "zeit, ä"}, source={"path": 'a "b" \\'}
    )
    again = parse(tomllib.loads(config.to_toml()), tmp_path, environment={})
    assert again.written == config.written
    assert fingerprint(again, "salt") == fingerprint(config, "salt")


def test_relative_paths_start_at_the_file(tmp_path):
    (tmp_path / "p.toml").write_text(toml.format_sections(LEAST))
    config = load(tmp_path / "p.toml")
    assert config.resolve_path("x/y") == tmp_path.resolve() / "x/y"
    assert config.resolve_path("/x/y").as_posix() == "/x/y"


def test_files_that_cannot_be_read_are_refused_with_what_to_do(tmp_path):
    with pytest.raises(ConfigurationError, match="streamboost init"):
        load(tmp_path / "nowhere.toml")
    (tmp_path / "bad.toml").write_text("[pipeline\n")
    with pytest.raises(ConfigurationError, match=r"bad\.toml: not valid TOML: .*line 1"):
        load(tmp_path / "bad.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    with pytest.raises(ConfigurationError, match="cannot be read as text"):
        load(tmp_path / "bytes.toml")
    with pytest.raises(ConfigurationError, match="is a folder; give the pipeline file"):
        load(tmp_path)


def test_toml_text_survives_whatever_it_holds():
    text = 'quote " backslash \\ tab \t line \n delete \x7f null \x00 smile \U0001f600'
    written = toml.format_sections({"a": {"b": text, "c": [1, 2.5, True], "d": None}})
    assert tomllib.loads(written) == {"a": {"b": text, "c": [1, 2.5, True]}}
    with pytest.raises(TypeError, match="cannot be written"):
        toml.format_sections({"a": {"b": object()}})


def test_the_template_is_a_valid_file_that_shows_every_key_with_its_default(tmp_path):
    config = parse(tomllib.loads(render_template()), tmp_path, environment={})
    section, shown = "", {}
    for line in render_template().splitlines():
        if header := re.fullmatch(r"\[(\w+)\]", line):
            section = header[1]
        elif setting := re.match(r"(?:# )?(\w+) = (\S.*?)(?: +#.*)?$", line):
            shown.setdefault((section, setting[1]), []).append(setting[2])
    for name, values in config.written.items():
        for key, value in values.items():
            if key == "path":
                continue
            assert (name, key) in shown, f"[{name}] {key} is not shown"
            if value is not None:
                assert (
                    toml.format_sections({"x": {"k": value}}).split(" = ")[1].strip()
                    in shown[name, key]
                )
    known = {(name, key) for name, values in config.written.items() for key in values}
    # Left out where they say nothing.
    known |= {
        ("initial_data", "committee"),
        ("labels", "on_conflict"),
        ("predictions", "include"),
        ("predictions", "probabilities"),
    }
    of_other_connectors = {"path", "stream", "follow", "answer"}
    assert {key for key in shown.keys() - known if key[1] not in of_other_connectors} == set()


KAFKA = {
    "pipeline": {"name": "test"},
    "kafka": {"bootstrap_servers": "localhost:9092"},
    "source": {"connector": "kafka"},
}


def test_beside_records_in_a_topic_all_else_is_in_topics_named_after_the_pipeline(tmp_path):
    sections = made(tmp_path, base=KAFKA).sections
    named = [sections.source, sections.labels, sections.predictions, sections.requests]
    assert [section.topic for section in (*named, sections.dead_letters)] == [
        "test.records",
        "test.labels",
        "test.predictions",
        "test.requests",
        "test.dead_letters",
    ]
    assert made(tmp_path, base=KAFKA).commits_to_kafka
    assert not made(tmp_path, base=KAFKA, kafka={"transactions": False}).commits_to_kafka


def test_a_topic_may_have_a_name_of_its_own_and_outputs_another_connector(tmp_path):
    config = made(
        tmp_path,
        base=KAFKA,
        source={"topic": "raw"},
        predictions={"connector": "files", "path": "p.jsonl"},
    )
    assert config.sections.source.topic == "raw"
    assert config.sections.predictions.path == "p.jsonl"
    assert config.sections.requests.topic == "test.requests"


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        (
            {"kafka": {"sasl_mechanisms": "PLAIN"}},
            "[kafka] sasl_mechanisms: Kafka has no option 'sasl_mechanisms': did you mean "
            "'sasl_mechanism'?",
        ),
        (
            {"kafka": {"enable_auto_commit": True}},
            "[kafka] enable_auto_commit: the Kafka option 'enable_auto_commit' cannot be set: "
            "positions are committed with what was made of the records; leave it out",
        ),
        (
            {"kafka": {"sasl_plain_password": "hunter2"}},
            '[kafka] sasl_plain_password: is a secret: write it as "${NAME}" and set the '
            "environment variable NAME",
        ),
        (
            {"labels": {"connector": "kafka", "topic": "test.records"}},
            "[labels]: has the same location as [source]: set a separate location for each",
        ),
        (
            {"predictions": {"connector": "kafka", "topic": "test.journal"}},
            "[kafka]: has an input or output in the topic of the pipeline's journal: set another "
            "topic",
        ),
        (
            {"source": {"topic": "a b"}},
            "[source] topic: must be at most 249 letters, digits, dots, dashes and underscores, "
            "and is 'a b'",
        ),
        (
            {"source": {"topic": ".."}},
            "[source] topic: must be at most 249 letters, digits, dots, dashes and underscores, "
            "and is '..'",
        ),
    ],
)
def test_what_is_wrong_with_kafka_is_put_into_words(tmp_path, sections, said):
    assert problems(tmp_path, base=KAFKA, **sections) == [said]


def test_the_topics_of_a_pipeline_with_the_longest_name_are_legal(tmp_path):
    name = "n" * 200
    topics = [journal_topic(name), scoring_log_topic(name), models_topic(name)]
    config = made(tmp_path, base=KAFKA, pipeline={"name": name})
    topics += [getattr(config.sections, section).topic for section in ENDPOINTS]
    assert len(topics) == 8
    assert max(map(len, topics)) <= 249


@pytest.mark.parametrize("name", ["n" * 201, "n" * 245, "_n", "."])
def test_a_name_that_no_topic_can_begin_with_is_refused(tmp_path, name):
    found = problems(tmp_path, base=KAFKA, pipeline={"name": name})
    (line,) = (line for line in found if line.startswith("[pipeline] name"))
    assert "must be at most 200 letters, digits, dots, dashes and underscores, the first a" in line


def test_topics_need_a_cluster_and_a_cluster_needs_topics(tmp_path):
    without = {name: KAFKA[name] for name in ("pipeline", "source")}
    (missing,) = problems(tmp_path, base=without)
    assert missing.startswith("[kafka]: this section is missing")
    (unused,) = problems(tmp_path, kafka=KAFKA["kafka"])
    assert unused == '[kafka]: no section has connector = "kafka": delete [kafka]'


def test_the_cluster_may_move_and_its_options_change_but_not_the_place_of_the_journal(tmp_path):
    password = {"sasl_plain_password": "${PASSWORD}"}
    before = made(tmp_path, {"PASSWORD": "hunter2"}, base=KAFKA, kafka=password)
    after = made(tmp_path, base=KAFKA, kafka={"bootstrap_servers": "other:9092"})
    assert fingerprint(before, "salt") == fingerprint(after, "salt")
    assert "hunter2" not in before.to_toml()
    elsewhere = made(tmp_path, base=KAFKA, kafka={"transactions": False})
    assert fingerprint(elsewhere, "salt") != fingerprint(after, "salt")


STUDIO = {"url": "http://localhost:8080", "project": 7, "token": "${TOKEN}"}


def test_label_studio_may_come_and_go_and_its_token_is_never_shown(tmp_path):
    before = made(tmp_path)
    after = made(tmp_path, {"TOKEN": "hunter2"}, label_studio=STUDIO)
    assert fingerprint(before, "salt") == fingerprint(after, "salt")
    assert "hunter2" not in after.to_toml()
    assert tomllib.loads(after.to_toml())["label_studio"]["token"] == "${TOKEN}"


def test_a_token_that_is_written_out_and_an_address_that_is_none_are_refused(tmp_path):
    wrong = {"url": "ftp://localhost", "project": 0, "token": "hunter2"}
    found = problems(tmp_path, label_studio=wrong)
    assert any(line.startswith("[label_studio] url: must be an address") for line in found)
    assert any(line.startswith("[label_studio] project: must be at least 1") for line in found)
    (secret,) = problems(tmp_path, label_studio=STUDIO | {"token": "hunter2"})
    assert secret.startswith("[label_studio] token: is a secret")
    found = problems(tmp_path, label_studio=STUDIO | {"url": "http://me:hunter2@localhost"})
    assert any("without a user" in line for line in found)


AVRO = KAFKA | {
    "source": {"connector": "kafka", "format": "avro"},
    "schema_registry": {"url": "http://localhost:8081"},
}


def test_a_registry_may_move_and_its_password_is_never_shown(tmp_path):
    account = {"username": "me", "password": "${PASSWORD}", "ca": "ca.pem"}
    before = made(tmp_path, base=AVRO)
    after = made(tmp_path, {"PASSWORD": "hunter2"}, base=AVRO, schema_registry=account)
    assert fingerprint(before, "salt") == fingerprint(after, "salt")
    assert "hunter2" not in after.to_toml()
    registry = open_schema_registry(after.connector_context)
    assert "hunter2" not in repr(registry)
    assert registry.ca == str(tmp_path / "ca.pem")


def test_a_format_holds_for_a_state_where_it_is_read_and_may_change_where_it_is_written(tmp_path):
    plain, before = made(tmp_path, base=KAFKA), made(tmp_path, base=AVRO)
    assert fingerprint(plain, "salt") != fingerprint(before, "salt")
    after = made(tmp_path, base=AVRO, predictions={"connector": "kafka", "format": "json-schema"})
    assert fingerprint(before, "salt") == fingerprint(after, "salt")
    assert "format" not in plain.to_toml(), "a file of a release before stays the same"


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"schema_registry": {"url": "localhost:8081"}}, "[schema_registry] url: must be an addr"),
        ({"schema_registry": {"url": "http://me:x@a:1"}}, "[schema_registry] url: must be an addr"),
        ({"schema_registry": {"username": "me"}}, "[schema_registry] username: needs password"),
        (
            {"schema_registry": {"username": "me", "password": "hunter2"}},
            "[schema_registry] password: is a secret",
        ),
        ({"source": {"format": "protobuf"}}, "[source] format: "),
        ({"source": {"format": "json"}}, "[schema_registry]: no section has format"),
    ],
)
def test_what_is_wrong_with_a_registry_is_put_into_words(tmp_path, sections, said):
    (found,) = problems(tmp_path, base=AVRO, **sections)
    assert found.startswith(said)
    assert "hunter2" not in found


def test_a_format_needs_a_registry(tmp_path):
    (found,) = problems(tmp_path, base=KAFKA, labels={"connector": "kafka", "format": "avro"})
    assert found.startswith("[labels] format: needs a schema registry: add [schema_registry]")


def test_the_template_for_kafka_is_a_pipeline_file(tmp_path):
    config = parse(tomllib.loads(render_template(kafka=True)), tmp_path, environment={})
    assert config.sections.source.topic == "segments.records"
    for line in render_template(kafka=True).splitlines():
        if line.startswith("# topic = "):
            assert line.split('"')[1] in str(config.sections)


@pytest.mark.parametrize("kafka", [False, True])
def test_the_short_template_is_the_same_pipeline_on_a_screen(tmp_path, kafka):
    text = brief.render_template(kafka=kafka)
    assert len(text.splitlines()) <= 40
    short = parse(tomllib.loads(text), tmp_path, environment={})
    every = parse(tomllib.loads(render_template(kafka=kafka)), tmp_path, environment={})
    assert short.written == every.written


def test_who_has_a_voice_beside_the_committee_is_a_key(tmp_path):
    schema = Schema(numeric=["a", "b", "c"])
    assert made(tmp_path).learner_config.build_learner(schema, seed=0).experts == EXPERTS
    core = made(tmp_path, committee={"experts": ["linear", "committee"]}).learner_config
    assert core.build_learner(schema, seed=0).experts == ("committee", "linear")
    assert core.settings["committee"]["experts"] == ["linear", "committee"]
    for wrong in ("nobody", ["linear"], 3, ["committee", 1], {"committee": 1}):
        (line,) = problems(tmp_path, committee={"experts": wrong})
        assert line.startswith("[committee] experts: experts is ")
        assert '"all", "committee" alone, or a list with "committee" and any of' in line


def test_whether_probabilities_are_calibrated_is_a_key(tmp_path):
    assert (
        made(tmp_path)
        .learner_config.build_learner(Schema(numeric=["a", "b", "c"]), seed=0)
        .evaluator.calibrate
    )
    core = made(tmp_path, committee={"calibrate": False}).learner_config
    assert not core.build_learner(Schema(numeric=["a", "b", "c"]), seed=0).evaluator.calibrate
    assert core.settings["committee"]["calibrate"] is False
    (line,) = problems(tmp_path, committee={"calibrate": 1})
    assert line == "[committee] calibrate: must be true or false, and is 1"


def test_files_that_cannot_be_what_they_are_named_for_are_refused(tmp_path):
    found = problems(
        tmp_path,
        source={"connector": "files", "path": "records.parquet", "follow": True},
        predictions={"connector": "files", "path": "-"},
        initial_data={"path": "-"},
    )
    assert sorted(line.split(":")[0] for line in found) == [
        "[initial_data] path",
        "[predictions] path",
        "[source] follow",
    ]


def test_compressed_files_are_read_and_neither_followed_nor_written(tmp_path):
    named = {"connector": "files", "path": "records.jsonl.gz"}
    assert made(tmp_path, source=named).sections.source.read_only_reason
    found = problems(
        tmp_path,
        source=named | {"follow": True},
        labels={"connector": "files", "path": "labels.parquet.gz"},
        predictions={"connector": "files", "path": "predictions.jsonl.gz"},
    )
    assert sorted(found) == [
        "[labels] path: a Parquet file is compressed internally: unpack the .gz file",
        "[predictions] path: must not end in .gz, as lines are appended without compression",
        "[source] follow: a compressed file cannot grow: delete this key",
    ]


def test_the_monitors_port_may_change_and_what_is_known_beforehand_may_not(tmp_path):
    plain = made(tmp_path)
    assert unchangeable_settings(made(tmp_path, monitor={"port": 9000})) == unchangeable_settings(
        plain
    )
    assert unchangeable_settings(
        made(tmp_path, initial_data={"path": "known.csv"})
    ) != unchangeable_settings(plain)
    (line,) = problems(tmp_path, monitor={"port": 70_000})
    assert line.startswith("[monitor] port")


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("path = a/b.jsonl", "a/b.jsonl"),
        ("path = records.jsonl # where they are", "records.jsonl"),
        ("path = 2024.jsonl", "2024.jsonl"),
        ("path = true.jsonl", "true.jsonl"),
        ("path = ${WHERE}.jsonl", "${WHERE}.jsonl"),
        ("path = {WHERE}", None),
        ("path = [a, b, 3]", ["a", "b", 3]),
        ("path = [a,]", ["a"]),
        ('path = "a', None),
        ("path = a b", None),
        ("path = 'a", None),
        ("path =", None),
        ("path = [a, [b]]", None),
        ("path = a = b", None),
        ("[path", None),
    ],
)
def test_text_without_quotes_is_guessed_where_it_is_one_word_or_a_list_of_such(line, value):
    text = f"[x]\r\n{line}\r\nlast = 1\r\n"
    if value is None:
        with pytest.raises(tomllib.TOMLDecodeError):
            toml.parse_allowing_unquoted_words(text)
        return
    assert toml.parse_allowing_unquoted_words(text) == (
        {"x": {"path": value, "last": 1}},
        {2: "path"},
    )


def test_text_is_read_as_it_stands_wherever_it_can_be():
    text = 'x = """\npath = a\n"""\nb = true\n'
    assert toml.parse_allowing_unquoted_words(text) == (tomllib.loads(text), {})


def test_text_without_quotes_is_refused_by_line_without_the_value_which_may_be_a_secret(tmp_path):
    (tmp_path / "p.toml").write_text(
        '[pipeline]\nname = hunter2\n[source]\nconnector = "sqlite"\nstream = records\n'
    )
    with pytest.raises(ConfigurationError) as failed:
        load(tmp_path / "p.toml")
    assert str(failed.value).partition("p.toml ")[2].splitlines() == [
        "has 2 problems:",
        '  line 2: the text that name is set to has no quotes: write name = "..."',
        '  line 5: the text that stream is set to has no quotes: write stream = "..."',
    ]
    (tmp_path / "p.toml").write_text('[pipeline]\nname = "x"\n[source]\ntags = [a, b]\n')
    with pytest.raises(ConfigurationError, match=r"p\.toml: line 4: the text that tags is set to"):
        load(tmp_path / "p.toml")
    (tmp_path / "p.toml").write_text('[pipeline]\nname = "x\n')
    with pytest.raises(ConfigurationError, match=r"not valid TOML: .*at line 2"):
        load(tmp_path / "p.toml")


def test_an_error_says_what_was_given_in_the_files_words(tmp_path):
    (line,) = problems(tmp_path, pipeline={"name": True})
    assert line == "[pipeline] name: must be text, in quotes, and is true"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "box.example"])
def test_metrics_beyond_this_machine_want_https_or_a_word(tmp_path, host):
    (line,) = problems(tmp_path, monitor={"host": host})
    assert line.startswith(f"[monitor] host: other machines can reach {host}")
    for further in ({"allow_insecure_http": True}, {"certificate": "c.pem", "key": "k.pem"}):
        made(tmp_path, monitor={"host": host} | further)
    (line,) = problems(tmp_path, monitor={"host": host, "key": "k.pem"})
    assert line == "[monitor] certificate: needs key, and key needs it: set both or none"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_metrics_on_this_machine_want_nothing_more(tmp_path, host):
    assert made(tmp_path, monitor={"host": host}).sections.monitor.host == host
