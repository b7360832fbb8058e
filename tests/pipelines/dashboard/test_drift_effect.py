"""Effect of feature drift: importance, and the change of accuracy since a shift began."""

import pytest

from streamboost.pipelines.dashboard.drift import (
    JUDGED,
    drift_tile_texts,
    feature_drift_table,
    shift_notice,
)
from streamboost.pipelines.dashboard.drift_effect import ShiftEffect
from streamboost.pipelines.dashboard.view import EvaluationData, StatusSnapshot
from streamboost.pipelines.status.reader import LabelledPrediction

HUE = {"name": "hue", "psi": 0.4, "peak": 0.4, "peaked": 3_000, "began": 2_000, "shifted": True}
HUE |= {"started": [70, 1_000]}
IMPORTANCES = {"hue": 0.6, "row": 0.3, "noise": 0.01}


def labelled(n_right, arrived, n=100, propensity=1.0):
    return [
        LabelledPrediction(1, "a", "a" if i < n_right else "b", propensity, arrived)
        for i in range(n)
    ]


def view(predictions, *features, importances=IMPORTANCES):
    documents = {
        "pipeline": {"name": "p"},
        "features": {"features": features or [HUE], "records": 1_000},
        "importances": importances,
    }
    return StatusSnapshot(documents=documents, evidence=EvaluationData(predictions))


def effect_of(before, later, feature=HUE, n=100, **more):
    predictions = labelled(before, 100, n) + labelled(later, 1_000, n)
    return ShiftEffect.from_view(view(predictions, **more), feature)


@pytest.mark.parametrize(
    ("before", "later", "n", "verdict", "text"),
    [
        (92, 60, 100, "matters", "accuracy fell 32.0 points"),
        (4_600, 4_580, 5_000, "does not matter so far", "accuracy -0.4 points"),
        (60, 92, 100, "does not matter so far", "accuracy +32.0 points"),
        (92, 88, 100, "unclear whether it matters", "accuracy -4.0 points"),
        (2, 1, 2, "unclear whether it matters", "too few labels"),
    ],
)
def test_shift_matters_if_the_accuracy_fell_significantly(before, later, n, verdict, text):
    found = effect_of(before, later, n=n)
    assert found.verdict == verdict
    assert found.text.startswith(f"{verdict}: {text}")


def test_interval_of_a_fall_is_that_of_the_difference():
    found = effect_of(92, 60)
    low, high = found.change.interval
    assert low < -0.32 < high < 0.0
    assert found.change_text.endswith(f"({-100 * high:.1f} to {-100 * low:.1f})")


def test_shift_of_a_feature_with_low_importance_is_not_the_cause():
    noise = HUE | {"name": "noise"}
    assert effect_of(92, 91, noise).text.startswith("low importance: accuracy -1.0 points")
    assert effect_of(92, 60, noise).text.endswith("probably by another cause")


def test_importance_has_its_place_among_all_features():
    assert effect_of(92, 91).importance_text == "60.0 %, the largest of all"
    assert effect_of(92, 91, HUE | {"name": "row"}).importance_text == "30.0 %, number 2"
    assert effect_of(92, 91, importances={}).importance_text == "—"


def test_effect_is_unclear_without_labels_before_the_shift():
    found = ShiftEffect.from_view(view(labelled(90, 1_000)), HUE)
    assert found.text == "unclear whether it matters: too few labels"


def test_effect_is_unclear_if_few_labels_have_most_of_the_weight():
    predictions = labelled(90, 100, 90) + labelled(8, 1_000, 8)
    predictions += labelled(0, 1_000, 1, propensity=0.005)  # represents 200 records
    found = ShiftEffect.from_view(view(predictions), HUE)
    assert found.verdict == "unclear whether it matters"


def test_table_tile_and_status_line_say_whether_the_shift_matters():
    calm = {"name": "row", "psi": 0.01, "peak": 0.01, "began": None}
    shown = view(labelled(92, 100) + labelled(60, 1_000), HUE, calm)
    rows = feature_drift_table(shown).rows
    assert rows[0][1].startswith("matters: accuracy fell 32.0 points")
    assert rows[1][1] == "—"
    for text in (shift_notice(shown), drift_tile_texts(shown)[1]):
        assert "shifted; hue matters: accuracy fell 32.0 points" in text


def test_notice_counts_further_features_and_names_an_unclear_effect():
    row = HUE | {"name": "row"}
    shown = view(labelled(92, 100) + labelled(88, 1_000), HUE, row)
    assert shift_notice(shown).startswith(
        "hue and 1 other feature have shifted; hue: unclear whether it matters: accuracy -4.0"
    )
    noise = view([], HUE | {"name": "noise"})
    assert shift_notice(noise) == "noise has shifted; its importance in the committee is low"


def test_feature_with_a_low_importance_is_last_of_the_shifted_ones():
    noise = HUE | {"name": "noise", "psi": 90.0}
    names = [row[0].text for row in feature_drift_table(view([], noise, HUE)).rows]
    assert names == ["hue", "noise"]


def test_effect_is_computed_for_the_first_features_of_the_table_only():
    many = [HUE | {"name": f"f{i:03}"} for i in range(JUDGED + 5)]
    rows = feature_drift_table(view([], *many, importances={})).rows
    assert [row[1] == "—" for row in rows] == [False] * JUDGED + [True] * 5
