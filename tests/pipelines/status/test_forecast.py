"""Texts of forecasts, in commands and on the dashboard."""

from types import SimpleNamespace

from streamboost.evaluation.learning_curve import Forecast
from streamboost.evaluation.report import Estimate
from streamboost.pipelines.dashboard.forecast import forecast_table
from streamboost.pipelines.dashboard.view import StatusSnapshot
from streamboost.pipelines.demo import compare
from streamboost.pipelines.demo.page import results_page
from streamboost.pipelines.demo.table import forecast_text
from streamboost.pipelines.runner.pipeline import Pipeline
from streamboost.pipelines.status.forecast import forecast_lines, target_lines


def estimate(value, low, high):
    return {"value": value, "low": low, "high": high}


FORECAST = {
    "labels": 1_000,
    "accuracy": estimate(0.9, 0.88, 0.92),
    "steps": [
        {
            "labels": 200,
            "accuracy": estimate(0.915, 0.89, 0.93),
            "gain": estimate(0.015, 0.004, 0.026),
        }
    ],
    "targets": [
        {"accuracy": 0.95, "labels": 1_912.0, "low": 1_234.0, "high": None},
        {"accuracy": 0.98, "labels": None, "low": None, "high": None},
    ],
    "n_missing_labels": 0,
    "ceiling": 0.964,
    "records_per_label": 10.0,
}
REPORT = {
    "classes": [{"label": "a"}, {"label": "b"}],
    "confusion": [[50.0, 9.0], [1.0, 40.0]],
}
EVALUATION = {"recent": REPORT}


def test_lines_give_gains_targets_the_ceiling_and_the_most_frequent_error():
    assert list(forecast_lines(FORECAST, EVALUATION)) == [
        "200 more labels: 1.5 points better, 0.4 to 2.6; accuracy 91.5 % (89.0 to 93.0).",
        "1,000 more labels: inconclusive, as the interval is wider than 10 points.",
        "95.0 % is reached after about 1,900 more labels (1,200 or more), in 19,000 records.",
        "98.0 % will probably not be reached: more labels give 96.4 % at most.",
        "The most frequent error: b predicted as a (90% of the errors).",
    ]
    assert max(map(len, forecast_lines(FORECAST, EVALUATION))) < 96


def test_lines_say_why_there_is_no_forecast():
    (few,) = forecast_lines({})
    assert few == "No forecast yet: it needs 300 labels, and at least one for every 15 records."

    def reason(answered, records=1_000, **since_start):
        reports = {
            "since_start": {"answered": answered, **since_start},
            "recent": {"records": records, "answered": 50},
        }
        (found,) = forecast_lines({}, reports)
        return found

    assert reason(180) == "No forecast yet: it needs 300 labels, about 120 more labels."
    assert reason(180, left_out=["eve"]) == (
        "No forecast yet: it needs 300 labels by other annotators than eve, about 120 more labels."
    )
    assert reason(500) == (
        "No forecast: it needs a label for every 15 records. There is one for every 20."
    )
    assert reason(310, 500) == "No forecast yet: about 100 more labels are needed."
    (wide,) = forecast_lines(FORECAST | {"steps": [], "targets": [], "n_missing_labels": 400})
    assert wide == "Inconclusive: about 400 more labels are needed for a forecast."


def test_lines_name_the_annotators_whose_labels_are_left_out():
    found = {"recent": REPORT | {"left_out": ["eve", "joe"]}}
    *_, last = forecast_lines(FORECAST, found)
    assert last.startswith("The accuracy does not use the labels of eve, joe.")


def test_predictions_of_another_system_have_no_forecast():
    (reason,) = forecast_lines({}, {"since_start": {"answered": 20}}, is_recorded=True)
    assert "another system" in reason
    found = Forecast(400, Estimate(0.9, 0.88, 0.92), (), (), 100, 0.96, 10.0)
    learner = SimpleNamespace(forecast=lambda: found)
    own, other = (SimpleNamespace(learner=learner, recorded=one) for one in (None, object()))
    assert Pipeline.forecast(own)["labels"] == 400
    assert Pipeline.forecast(other) == {}


def test_lines_name_missing_steps_and_accuracies_below_the_ceiling_that_are_not_reached():
    few = FORECAST | {"labels": 500, "targets": FORECAST["targets"][1:], "ceiling": 0.986}
    _, first, second, third, _ = forecast_lines(few, EVALUATION)
    assert first == "1,000 more labels: shown from 1,000 labels on."
    assert second == "98.0 % is uncertain even with ten times the labels."
    assert third == "More labels will probably not raise the accuracy above 98.6 %."


def test_duration_is_in_days_if_labels_have_a_rate():
    first, *_ = target_lines(FORECAST, EVALUATION, seconds_per_label=497.0)
    assert first.endswith("in 11.0 days.")


def view(**documents):
    points = [{"time": 0, "answered": 100}, {"time": 86_400_000, "answered": 200}]
    return StatusSnapshot(documents=documents, points=points)


def test_panel_has_a_row_for_now_and_each_step():
    table = forecast_table(view(forecast=FORECAST, evaluation=EVALUATION))
    assert [row[0] for row in table.rows] == ["now, fitted", "200 more", "1,000 more"]
    assert table.rows[2][1].startswith("inconclusive")
    assert "91.5 % (89.0 to 93.0)" in table.rows[1]
    assert "in 19.1 days" in table.summary
    assert "300 labels" in forecast_table(view()).summary


def test_demo_shows_the_forecast_of_the_first_strategy_that_selects_labels():
    rows = [
        compare.StrategyResult(name, 5_000, labels, 0.9, 0.9, 0.9, 1.0, 100.0, forecast)
        for name, labels, forecast in (
            ("all", 5_000, {}),
            ("repeat_last", 500, {}),
            ("margin", 500, FORECAST),
        )
    ]
    title, first, *_ = forecast_text(rows)
    assert title.startswith("margin, 500 labels")
    assert first.startswith("200 more labels")
    assert first in results_page("records", "", rows, {})
    assert forecast_text(rows[:2]) == []


def test_panel_says_how_many_labels_the_budget_has_left_if_a_step_needs_more():
    def summary(allowed):
        ledger = {"allowed": allowed, "requests": 1_798}
        return forecast_table(
            StatusSnapshot(documents={"forecast": FORECAST, "ledger": ledger})
        ).summary

    assert "The budget has 2 labels left now; it grows with records." in summary(1_800.0)
    assert "The budget has 0 labels left now" in summary(1_700.0)
    assert "The budget" not in summary(1_998.0), "enough for the 200 labels of the step"
