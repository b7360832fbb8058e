"""Alerts of examples/monitoring: each fires if it should, and none in normal operation.

Prometheus' `promtool` evaluates the alerts on the series in this file.
"""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

RULES = Path(__file__).parents[3] / "examples" / "monitoring" / "alerts.yml"
GIVEN = {"instance": "here", "job": "streamboost"}

# The series of a pipeline at which all is well, one value a minute, and when that is looked at.
WELL = {
    "up": "1x600",
    "streamboost_retrying": "0x600",
    'streamboost_source_stalled{source="records"}': "0x600",
    'streamboost_lag_messages{source="records"}': "20000-30x600",
    'streamboost_replay_margin_messages{source="records"}': "500x600",
    "streamboost_sequence": "0+100x600",
    "streamboost_checkpoint_sequence": "0+100x600",
    "streamboost_oldest_checkpoint_timestamp_seconds": "0+60x600",
    "streamboost_last_label_timestamp_seconds": "0+60x600",
    "streamboost_disk_free_bytes": "100000000000-10000x600",
    "streamboost_log_bytes": "10000000x600",
    'streamboost_dead_letters_total{reason="bad_json"}': "0x600",
    'streamboost_dead_letters_total{reason="empty"}': "0x600",
    "streamboost_records_total": "0+1000x600",
    'streamboost_labels_ignored_total{kind="unknown"}': "0x600",
    'streamboost_labels_ignored_total{kind="duplicate"}': "0+1x600",
    "streamboost_labels_total": "0+10x600",
    "streamboost_open_requests": "50x600",
    "streamboost_changes_total": "1x600",
    "streamboost_accuracy_drop_low_ratio": "-0.02x600",
    'streamboost_recorded_predictions{kind="malformed"}': "0x600",
    'streamboost_recorded_predictions{kind="valid"}': "0+1000x600",
    'streamboost_accuracy_high_ratio{predictor="committee"}': "0.9x600",
    'streamboost_accuracy_low_ratio{predictor="repeat_last"}': "0.5x600",
}

# By alert: the input series, the minute at which it fires, its further labels, and its value.
AMISS = {
    "StreamboostDown": ({"up": "1x5 0x600"}, 10, {}, ""),
    "StreamboostRetrying": ({"streamboost_retrying": "0x5 1x600"}, 12, {}, ""),
    "StreamboostSourceStalled": (
        {'streamboost_source_stalled{source="records"}': "0x5 1x600"},
        15,
        {"source": "records"},
        "",
    ),
    "StreamboostFallingBehind": (
        {'streamboost_lag_messages{source="records"}': "0+600x600"},
        60,
        {"source": "records"},
        "10",
    ),
    "StreamboostReplayAtRisk": (
        {'streamboost_replay_margin_messages{source="records"}': "5-1x600"},
        10,
        {"source": "records"},
        "",
    ),
    "StreamboostNoCheckpoint": ({"streamboost_checkpoint_sequence": "0x600"}, 30, {}, "3000"),
    "StreamboostOldCheckpoint": (
        {"streamboost_oldest_checkpoint_timestamp_seconds": "60x600"},
        400,
        {},
        "6h 39m 0s",
    ),
    "StreamboostNoLabels": (
        {"streamboost_last_label_timestamp_seconds": "60x600"},
        400,
        {},
        "6h 39m 0s",
    ),
    "StreamboostDiskFull": (
        {"streamboost_disk_free_bytes": "100000000000-100000000x600"},
        120,
        {},
        "",
    ),
    "StreamboostLargeLog": ({"streamboost_log_bytes": "200000000000x600"}, 60, {}, ""),
    "StreamboostDeadLetters": (
        {
            'streamboost_dead_letters_total{reason="bad_json"}': "0x5 200x600",
            "streamboost_records_total": "0x5 20x600",
        },
        12,
        {},
        "",
    ),
    "StreamboostUnknownLabels": (
        {'streamboost_labels_ignored_total{kind="unknown"}': "0x5 50x600"},
        12,
        {},
        "",
    ),
    "StreamboostUnanswered": ({"streamboost_labels_total": "7x600"}, 500, {}, ""),
    "StreamboostChange": ({"streamboost_changes_total": "1x5 2x600"}, 10, {}, ""),
    "StreamboostNoBetterThanRepeating": (
        {'streamboost_accuracy_low_ratio{predictor="repeat_last"}': "0.95x600"},
        60,
        {},
        "",
    ),
    "StreamboostAccuracyDrop": (
        {"streamboost_accuracy_drop_low_ratio": "-0.02x5 0.03x600"},
        12,
        {},
        "",
    ),
    "StreamboostMalformedPredictions": (
        {'streamboost_recorded_predictions{kind="malformed"}': "0x5 7x600"},
        12,
        {"kind": "malformed"},
        "",
    ),
}
WITHOUT_JOB = {"StreamboostDeadLetters", "StreamboostUnknownLabels"}


@pytest.fixture(scope="module")
def rules():
    yaml = pytest.importorskip("yaml", reason="PyYAML is not here")
    (group,) = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


@pytest.fixture
def look(tmp_path):
    """Have promtool compare what fires at a minute with what should."""
    if shutil.which("promtool") is None:
        pytest.skip("promtool is missing: it comes with Debian's package prometheus")

    def look(series, minute, expected):
        told = [
            {"series": _labelled(name), "values": values}
            for name, values in (WELL | series).items()
        ]
        checks = [
            {"eval_time": f"{minute}m", "alertname": alert, "exp_alerts": alerts}
            for alert, alerts in expected.items()
        ]
        test = {"interval": "1m", "input_series": told, "alert_rule_test": checks}
        file = tmp_path / "alerts.test.json"  # which is YAML as well
        wanted = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [test]}
        file.write_text(json.dumps(wanted))
        command = ["promtool", "test", "rules", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    return look


def _labelled(series):
    """Return a series with what Prometheus adds to it."""
    name, _, labels = series.partition("{")
    given = ",".join(f'{label}="{value}"' for label, value in GIVEN.items())
    return f"{name}{{{given},{labels}" if labels else f"{name}{{{given}}}"


def test_nothing_fires_while_all_is_well(rules, look):
    for minute in (5, 60, 590):
        look({}, minute, {alert: [] for alert in rules})


def test_each_alert_is_tried(rules):
    assert rules.keys() == AMISS.keys()


@pytest.mark.parametrize("alert", AMISS)
def test_it_fires_when_something_is_amiss(rules, look, alert):
    series, minute, further, value = AMISS[alert]
    rule = rules[alert]
    labels = GIVEN | further
    if alert in WITHOUT_JOB:
        del labels["job"]
    told = {
        name: re.sub(
            r"{{ \$(?:labels\.(\w+)|value)(?: \| humanize(?:Duration)?)? }}",
            lambda found: labels[found[1]] if found[1] else value,
            text,
        )
        for name, text in rule["annotations"].items()
    }
    fired = {"exp_labels": labels | rule["labels"], "exp_annotations": told}
    look(series, minute, {alert: [fired]})
