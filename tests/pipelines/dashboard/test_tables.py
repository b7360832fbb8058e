"""Tables of the dashboard."""

from streamboost.pipelines.dashboard import drift, expert_weights, quality, tables
from streamboost.pipelines.dashboard.view import StatusSnapshot


def seen(**documents):
    return StatusSnapshot(documents=documents)


def texts(row):
    return [cell if isinstance(cell, str) else cell.text for cell in row]


def test_bars_of_the_class_mix_are_as_long_as_the_shares():
    table = tables.class_mix_table(
        seen(classes={"labels": ["a", "b"], "predicted": [3, 1], "labelled": [1, 1]})
    )
    assert [texts(row) for row in table.rows] == [
        ["a", "75.0 %", "50.0 %"],
        ["b", "25.0 %", "50.0 %"],
    ]
    assert [[cell.bar for cell in row[1:]] for row in table.rows] == [[0.75, 0.5], [0.25, 0.5]]


def test_a_pipeline_that_was_started_again_is_told_what_it_waits_for():
    again = seen(learner={"version": 164})
    assert tables.class_mix_table(again).summary == "Shown once classes are predicted in this run."
    assert (
        tables.confusion_matrix_table(again).summary
        == "Shown once labels of records predicted in this run arrive."
    )


def test_the_confusion_matrix_shades_each_row_by_itself_and_mistakes_differently():
    table = tables.confusion_matrix_table(
        seen(confusion={"labels": ["a", "b"], "counts": [[3, 1], [0, 8]]})
    )
    assert table.summary.startswith("Of the newest 12 requests answered in this run, 11 were")
    assert [texts(row) for row in table.rows] == [
        ["a", "4", "75 %", "25 %"],
        ["b", "8", "·", "100 %"],
    ]
    (_, _, right, wrong), (_, _, _, all_right) = table.rows
    assert (right.note, wrong.note) == ("3 labels: ", "1 label: ")
    assert (right.shade, wrong.shade, all_right.shade) == (0.75, 0.25, 1.0)
    assert right.colour != wrong.colour


def test_of_many_classes_the_commonest_are_shown():
    n = tables.MOST_CLASSES + 5
    counts = [[int(i == j) * (i + 1) for j in range(n)] for i in range(n)]
    table = tables.confusion_matrix_table(
        seen(confusion={"labels": list(range(n)), "counts": counts})
    )
    assert [texts(row)[0] for row in table.rows] == [str(i) for i in range(5, n)]
    assert f"The {n - 5} most frequent of {n}" in table.summary


def test_features_that_moved_come_first_and_are_counted():
    given = [
        {"name": "still", "psi": 0.01, "missing": 0.0, "missing_reference": 0.0},
        {"name": "moved", "psi": 0.4, "missing": 0.5, "missing_reference": 0.0},
        {"name": "unknown", "psi": None, "missing": None, "missing_reference": None},
    ]
    table = drift.feature_drift_table(seen(features={"features": given}))
    assert [texts(row)[0] for row in table.rows] == ["moved", "still", "unknown"]
    assert texts(table.rows[0])[:3] == ["moved", "—", "0.40"]
    assert texts(table.rows[0])[-1] == "50.0 % (0.0 %)"
    assert table.rows[0][2].note == "shifted: "
    assert table.summary == "moved has shifted."


def test_tile_counts_the_shifted_features_of_the_previous_run_before_there_is_a_psi():
    given = [{"name": name, "psi": None, "shifted": name == "hue"} for name in ("hue", "row")]
    view = seen(features={"features": given, "records": 10})
    assert drift.drift_tile_texts(view) == ("1", "shifted in the previous run")


def test_features_that_hardly_moved_keep_their_places():
    indexes = ({"b": 0.03, "a": 0.02, "c": 0.12}, {"a": 0.04, "b": 0.01, "c": 0.11})
    orders = []
    for given in indexes:
        found = [{"name": name, "psi": index} for name, index in given.items()]
        table = drift.feature_drift_table(seen(features={"features": found}))
        orders.append([texts(row)[0] for row in table.rows])
    assert orders == [["c", "a", "b"]] * 2


def test_of_what_shifted_that_comes_first_which_matters_most_and_what_matters_little_says_so():
    def told(records=1_000, **indexes):
        given = [{"name": name, "psi": index} for name, index in indexes.items()]
        about = {"features": given, "records": records}
        shares = {"hue": 0.6, "row": 0.3, "noise": 0.01}
        return drift.feature_drift_table(seen(features=about, importances=shares))

    table = told(noise=5.0, row=0.4, hue=0.3)
    assert [texts(row)[0] for row in table.rows] == ["hue", "row", "noise"]
    assert table.summary == (
        "hue and 1 other feature have shifted; noise has shifted too, with a low importance in the "
        "committee."
    )
    alone = told(noise=5.0, row=0.01, hue=0.05)
    assert [texts(row)[0] for row in alone.rows] == ["noise", "hue", "row"]
    assert alone.summary == "noise has shifted; its importance in the committee is low."
    assert "differences may be random" in told(999, hue=0.3).summary


def test_after_a_restart_what_had_shifted_stays_so_until_enough_records_tell():
    def told(records, psi, is_shifted):
        one = {"name": "hue", "psi": psi, "shifted": is_shifted}
        return drift.feature_drift_table(seen(features={"features": [one], "records": records}))

    assert told(20, 0.1, True).summary == (
        "hue has shifted in the previous run. Fewer than 1,000 records have arrived in this run."
    )
    assert "may be random" in told(20, 1.5, False).summary
    assert told(1_000, 0.3, True).summary == "hue has shifted."


def test_a_committees_history_reads_from_the_newest():
    kinds = ("trained", "promoted", "drift", "trouble")
    marks = [
        {"id": i, "time": i, "sequence": i, "kind": kind, "version": i, "text": "why"}
        for i, kind in enumerate(kinds, 1)
    ]
    rows = tables.committee_history_table(StatusSnapshot(marks=marks)).rows
    assert [texts(row)[1] for row in rows] == [
        "Error",
        "Drift detected; version 3 in training",
        "Version 2 deployed",
        "Version 1 in training",
    ]


def test_training_and_deployment_of_a_version_are_one_row():
    def mark(i, kind, version):
        text = f"retrain, {version}00 labels when training began"
        return {"id": i, "time": i, "sequence": i, "kind": kind, "version": version, "text": text}

    marks = [mark(1, "trained", 1), mark(2, "promoted", 1), mark(3, "trained", 2)]
    rows = tables.committee_history_table(StatusSnapshot(marks=marks)).rows
    assert [(texts(row)[1], texts(row)[3]) for row in rows] == [
        ("Version 2 in training", "retrain, 200 labels when training began"),
        ("Version 1 deployed", "retrain, 100 labels when training began"),
    ]


def test_experts_are_shown_with_their_weights_and_what_they_go_by():
    table = expert_weights.expert_weight_table(
        seen(experts={"committee": 0.25, "leaf neighbours": 0.75})
    )
    assert [texts(row)[:2] for row in table.rows] == [
        ["committee", "25.0 %"],
        ["leaf neighbours", "75.0 %"],
    ]
    assert all(row[2] != tables.NOTHING for row in table.rows)
    assert "leaf neighbours has the largest weight" in table.summary


def test_rivals_stand_beside_what_serves():
    def figures(value):
        told = {"value": value, "low": value - 0.05, "high": value + 0.05}
        return {"records": 300, "committee": {"accuracy": told}}

    own = {"since_start": figures(0.8), "recent": figures(0.8)}
    found = {"nb": {"since_start": figures(0.9), "recent": {}}}
    table = expert_weights.shadow_model_table(seen(evaluation=own, shadow_models=found))
    assert [texts(row) for row in table.rows] == [
        ["active model", "80.0 % (75.0 to 85.0)", "80.0 % (75.0 to 85.0)", "300"],
        ["nb", "90.0 % (85.0 to 95.0)", tables.NOTHING, "300"],
    ]
    assert table.summary == "More accurate than the active model since the start: nb."


def test_own_model_is_compared_with_recorded_predictions():
    figure = {"accuracy": {"value": 0.9, "low": 0.85, "high": 0.95}}
    gain = {"value": 0.031, "low": 0.01, "high": 0.052}
    found = {"own model": {"since_start": {"committee": figure, "gain": gain, "records": 9}}}
    counts = {"valid": 7, "labels_alone": 7, "missing": 0, "malformed": 2}
    view = seen(evaluation={}, shadow_models=found, recorded=counts)
    table = expert_weights.shadow_model_table(view)
    assert texts(table.rows[1])[-1] == "3.1 points better, 1.0 to 5.2"
    assert "2 records with an invalid prediction" in table.summary
    empty = quality.reliability_table(seen(evaluation={}, recorded=counts))
    assert empty.summary == "Not available: the records carry labels without probabilities."


def test_what_has_a_cause_leads_there():
    about = {"name": "a & b"}
    confusion = {"labels": ["x", "y"], "counts": [[3, 1], [0, 8]]}
    (_, _, _, wrong), (_, _, none, _) = tables.confusion_matrix_table(
        seen(pipeline=about, confusion=confusion)
    ).rows
    assert wrong.link == "/records?pipeline=a+%26+b&true=x&predicted=y"
    assert none.link is None
    given = [{"name": "f=1", "psi": 0.1}]
    (row,) = drift.feature_drift_table(seen(pipeline=about, features={"features": given})).rows
    assert row[0].link == "/features?pipeline=a+%26+b&feature=f%3D1"
    mark = {"id": 1, "time": 1, "sequence": 1, "kind": "promoted", "version": 7, "text": ""}
    view = StatusSnapshot(documents={"pipeline": about}, marks=[mark])
    assert tables.committee_history_table(view).rows[0][1].link == "/versions?pipeline=a+%26+b&b=7"


def report(recall, precision, n=100):
    def of(value):
        return {"value": value, "low": value - 0.1, "high": value + 0.1}

    classes = [
        {"label": name, "share": of(0.5), "recall": of(r), "precision": of(p)}
        for name, r, p in zip("xy", recall, precision, strict=True)
    ]
    bins = [
        {"low": 0.5, "high": 0.6, "records": 10, "confidence": 0.55, "accuracy": of(0.65)},
        {"low": 0.9, "high": 1.0, "records": 30, "confidence": 0.95, "accuracy": of(0.75)},
    ]
    quality = {"accuracy": of(0.8), "balanced_accuracy": of(0.7), "kappa": of(0.6)}
    others = {"accuracy": of(0.5)}
    return {
        "records": n,
        "committee": quality,
        "repeat_last": others,
        "majority": others,
        "log_loss": of(0.4),
        "classes": classes,
        "reliability": bins,
    }


def test_the_figures_that_inspect_has_are_shown_with_their_intervals():
    whole, recent = report([0.9, 0.4], [0.8, 0.7]), report([0.9, 0.3], [0.8, 0.7])
    view = seen(evaluation={"since_start": whole, "recent": recent}, pipeline={"name": "p"})
    rows = {texts(row)[0]: texts(row) for row in quality.metrics_table(view).rows}
    assert rows["Kappa"][1] == "60.0 % (50.0 to 70.0)"
    assert "100 % is perfect" in rows["Kappa"][3], "on the scale of the figure"
    assert rows["Log loss"][2] == "0.400 (0.300 to 0.500)"
    classes = quality.class_table(view)
    assert texts(classes.rows[1])[2:4] == ["40.0 % (30.0 to 50.0)", "30.0 % (20.0 to 40.0)"]
    assert classes.rows[1][0].link == "/records?pipeline=p&true=y"
    assert classes.summary == (
        f"y has the lowest recall in the newest {recent['records']} records: 30.0 % (20.0 to 40.0)."
        " y has the lowest recall since the start: 40.0 % (30.0 to 50.0)."
    )
    told = quality.reliability_table(view)
    assert [texts(row)[3] for row in told.rows] == ["10", "30"]
    assert "17.5 points" in told.summary
    assert "overconfident" in told.summary
