"""Texts of the drill-down pages, from a metric to its records."""

import pytest
from serving import SCRIPT, make_file, put, read, site_of

from streamboost.errors import DataError
from streamboost.pipelines.app.run import run
from streamboost.pipelines.config.file import load
from streamboost.pipelines.dashboard import (
    dead_letters,
    operations,
    record,
    records,
    tables,
    versions,
)
from streamboost.pipelines.dashboard import drift as features
from streamboost.pipelines.dashboard.annotators import disagreeing_annotators
from streamboost.pipelines.dashboard.record import (
    UnstoredRecord,
    disagreement_text,
    label_error_text,
    missing_record_text,
    nearest_records,
    record_history_texts,
)
from streamboost.pipelines.dashboard.view import StatusSnapshot
from streamboost.pipelines.service.auth.users import User
from streamboost.pipelines.state.commands import Command
from streamboost.pipelines.status.formatting import time_text
from tests.pipelines.dashboard.test_tables import texts

FOUND = {
    "id": "1404",
    "label": "cement",
    "probabilities": {"cement": 0.6, "grass": 0.3, "sky": 0.1},
    "version": 12,
    "margin": 0.5,
    "asked": True,
    "arrived": 1_000,
    "sequence": 7,
    "features": {"hue": 0.9, "row": 3.0, "name": "x"},
    "labels": [[2_000, "sky", "ann"], [3_000, "grass", "bob"]],
    "truth": "grass",
    "why": {
        "classes": ["cement", "sky", "grass"],
        "features": [["hue", 0.8, 0.0, -0.4], ["row", -0.2, 0.1, 0.3]],
        "others": [0.05, 0.0, 0.1],
        "n_others": 54,
        "base": [0.1, 0.2, 0.3],
    },
}
AGREED = FOUND | {"labels": [*FOUND["labels"], [3_000, "grass", "eve"], [3_001, "grass", "bob"]]}
VIEW = StatusSnapshot(
    documents={
        "pipeline": {"name": "p"},
        "features": {"features": [{"name": "hue", "mean": 0.2, "deviation": 0.1, "psi": 0.3}]},
    }
)


def test_a_record_tells_why_it_was_taken_for_one_class_and_not_for_what_it_is():
    table = record.contribution_table(FOUND, VIEW)
    assert [one.text for one in table.columns][3:] == ["For cement", "For grass"]
    assert texts(table.rows[0]) == ["hue", "0.9", "0.2\u00a0± 0.1", "+0.80", "-0.40"]
    assert texts(table.rows[-1])[3:] == ["+0.10", "+0.30"]
    assert table.summary.startswith(
        "Main reasons for cement over grass: hue (+1.20). Against: row (-0.50)."
    )


def test_what_is_usual_is_what_was_when_the_record_came_where_that_is_known():
    then = record.contribution_table(FOUND | {"usual": {"hue": [0.5, 0.05]}}, VIEW)
    assert then.columns[2].text == "Mean ± SD on arrival"
    assert [texts(row)[2] for row in then.rows[:2]] == ["0.5\u00a0± 0.05", "—"]
    now = record.contribution_table(FOUND, VIEW)
    assert (now.columns[2].text, texts(now.rows[0])[2]) == ("Mean ± SD now", "0.2\u00a0± 0.1")


@pytest.mark.parametrize(("started", "told"), [(900, "before"), (1_100, "after")])
def test_what_a_feature_that_shifted_did_leads_to_its_shift(started, told):
    hue = {"name": "hue", "began": 2_000, "started": [70, started]}
    given = {"features": [hue, {"name": "row", "began": None}]}
    table = record.contribution_table(
        FOUND, StatusSnapshot(documents={"pipeline": {"name": "p"}, "features": given})
    )
    assert table.rows[0][0].link == "/features?pipeline=p&feature=hue"
    assert table.rows[1][0] == "row"
    assert table.summary.endswith(f" hue shifted {told} the record arrived.")


def absent(unstored, **documents):
    text, *names = missing_record_text("7", unstored, StatusSnapshot(documents=documents))
    return text.format(*names)


ALL_KEPT = {
    "ledger": {"requests": 5, "again": 1},
    "join": {"records": 600, "unsolicited": 2},
}


def test_of_a_record_that_is_not_kept_is_said_what_became_of_it_as_far_as_anybody_knows():
    seen = {"id": "7", "label": "cement", "probability": 0.9, "version": 12, "asked": False}
    assert absent(UnstoredRecord(seen, predictions=500)) == (
        "Record 7 arrived, and was never requested or labelled. It was predicted as cement by "
        "version 12, 90.0 % sure."
    )
    assert absent(UnstoredRecord({"id": "7", "asked": False, "hidden": True})).endswith(
        "after your answer."
    )
    assert absent(UnstoredRecord(is_open=True)) == "Record 7 was requested, and has no label yet."
    kept = UnstoredRecord(predictions=500, records=6)
    assert absent(kept, **ALL_KEPT).startswith("Record 7 was never requested or labelled")
    few = ALL_KEPT | {"join": {"records": 500, "unsolicited": 2}}
    assert absent(kept, **few) == "Record 7 has never arrived."
    apart = absent(kept, **few, workers={"0": {}})
    assert apart.startswith("Record 7 was never requested"), "others predict what came"
    gone = absent(UnstoredRecord(predictions=500, records=5), **ALL_KEPT)
    assert gone.startswith(
        "No data is kept on record 7: it was never requested or labelled, its data was evicted"
    )
    assert gone.endswith(
        "Kept here are the newest 5 records that were requested or labelled, and the newest 500 "
        "predictions."
    )


@pytest.mark.slow
def test_a_status_tells_a_record_that_was_never_asked_about_from_one_that_never_came(site):
    status, view = site.served.status, StatusSnapshot(documents=site.served.status.documents())
    unasked = next(p["id"] for p in status.predictions() if status.labelled_record(p["id"]) is None)
    told = {
        id: missing_record_text(id, UnstoredRecord.from_status(id, status), view)[0]
        for id in (unasked, "nobody")
    }
    assert "arrived, and was never requested" in told[unasked]
    assert told["nobody"] == "Record {} has never arrived."


def test_a_request_whose_time_is_over_is_not_said_to_count_an_answer():
    asked = FOUND | {"truth": None, "labels": []}
    assert record_history_texts(asked | {"expires": 3_000})[-1][0].endswith(
        f"An answer was to come by {time_text(3_000)}: now it may be too late."
    )
    late = 4_000_000_000_000
    assert (
        f"An answer counts until {time_text(late)}."
        in record_history_texts(asked | {"expires": late})[-1][0]
    )


def why(classes, features, base=(0.0, 0.0)):
    others = [0.0] * len(classes)
    return {
        "classes": classes,
        "features": features,
        "others": others,
        "n_others": 54,
        "base": base,
    }


def test_a_feature_that_speaks_alike_for_two_classes_is_no_reason_for_one_of_them():
    told = why(["cement", "grass"], [["edges", 2.0, 1.9], ["glare", 1.3, -2.5], ["red", 0.8, 1.6]])
    found = FOUND | {"why": told}
    table = record.contribution_table(found, VIEW)
    assert [texts(row)[0] for row in table.rows][:3] == ["glare", "red", "edges"]
    assert ": glare (+3.80), edges (+0.10). Against: red (-0.80)" in table.summary
    (row,) = records.record_table([found], "p").rows
    assert texts(row)[6] == "glare +3.80, edges +0.10"


def test_a_prediction_that_other_experts_made_says_what_the_committee_would_have():
    blend = StatusSnapshot(
        documents=VIEW.documents | {"experts": {"committee": 0.06, "linear": 0.94}}
    )
    alone = "committee alone:"
    summary = record.contribution_table(FOUND, blend).summary.lower()
    assert f"{alone} cement." in summary
    against = FOUND | {"why": why(["cement", "grass"], [["hue", 0.2, 0.4]])}
    summary = record.contribution_table(against, blend).summary.lower()
    assert f"{alone} grass, outweighed by other experts" in summary
    assert alone not in record.contribution_table(FOUND, VIEW).summary.lower(), (
        "nobody else had a voice"
    )


def test_a_column_that_is_derived_from_a_text_is_not_called_missing():
    found = FOUND | {"why": why(["cement", "grass"], [["words for cement", 2.0, 0.1]])}
    rows = record.contribution_table(found, VIEW).rows
    assert texts(rows[0])[:3] == ["words for cement", "—", "—"]


def test_what_is_summed_says_of_how_many_features():
    def named(why):
        return texts(record.contribution_table(FOUND | {"why": FOUND["why"] | why}, VIEW).rows[-2])[
            0
        ]

    assert named({"n_others": 54}) == "54 others, summed"
    assert named({"n_others": 0}) == "row", "of none nothing is summed"


def test_whoever_calls_a_prediction_wrong_is_named_right_after_it():
    told = [text.format(*names) for text, *names in record_history_texts(AGREED)]
    assert told[0].startswith("Predicted as cement by version 12")
    assert told[1] == "That was wrong: bob says it is grass."
    assert told[2].startswith("Requested in batch")


def test_where_one_alone_says_it_whose_labels_go_against_the_others_that_is_said():
    alone = FOUND | {"labels": [[3_000, "grass", "bob"]]}
    compared = {"bob": {"labels": 90, "against": 40, "compared": 80}}
    compared |= {name: {"labels": 90, "against": 2, "compared": 80} for name in ("ann", "eve")}
    view = StatusSnapshot(documents={"annotators": compared})
    told = [
        text.format(*names)
        for text, *names in record_history_texts(alone, disagreeing_annotators(view))
    ]
    assert told[2] == "The only vote is by bob, who often disagrees with others."
    assert not any(
        "only vote" in text
        for text, *_ in record_history_texts(alone, disagreeing_annotators(StatusSnapshot()))
    )
    assert not any(
        "only vote" in text
        for text, *_ in record_history_texts(AGREED, disagreeing_annotators(view))
    ), "eve says so, too"


def test_where_one_voice_stands_against_one_nobody_is_right():
    said = " ".join(text for text, *_ in record_history_texts(FOUND))
    assert "The label is disputed" in said
    assert "No annotator chose the predicted class" in said
    assert "wrong" not in said
    right = FOUND | {"label": "grass"}
    said = " ".join(text for text, *_ in record_history_texts(right))
    assert "That was right" not in said
    assert "No annotator chose" not in said
    for one in (FOUND, right):
        (row,) = records.record_table([one], "p").rows
        assert texts(row)[2:4] == [f"{one['truth']} (disputed)", one["label"]]
        assert isinstance(row[3], str), "it is not marked as a mistake"


def beside(n, truth, **more):
    return [(0.1, {"id": str(i), "truth": truth, "arrived": 0} | more) for i in range(n)]


def test_a_label_looks_wrong_where_a_sure_prediction_and_most_of_the_likes_say_otherwise():
    sure = FOUND | {"probabilities": {"cement": 0.85, "grass": 0.1}}
    text, *names = label_error_text(sure, beside(4, "cement") + beside(1, "grass"))
    assert names == ["bob", "grass", "cement"]
    assert "85.0 % sure, and 4 of the 5 nearest" in text
    assert label_error_text(FOUND, beside(5, "cement")) is None, "60 % is not sure"
    assert label_error_text(sure, beside(2, "cement") + beside(3, "grass")) is None
    assert label_error_text(sure, beside(2, "cement")) is None
    assert label_error_text(sure | {"truth": None, "labels": []}, beside(5, "cement")) is None
    assert label_error_text(sure | {"truth": "cement"}, beside(5, "cement")) is None


def test_people_who_disagree_about_a_record_are_named_on_its_page():
    text, *names = disagreement_text(FOUND)
    assert text == "People disagree: {} says {}, {} says {}."
    assert names == ["ann", "sky", "bob", "grass"]
    assert disagreement_text(FOUND | {"labels": [[1, "a", "ann"], [2, "b", "ann"]]}) is None
    assert disagreement_text(FOUND | {"labels": [[1, "a", "ann"], [2, None, "bob"]]}) is None


def test_likes_that_came_or_were_labelled_after_a_prediction_are_no_reasons_for_it():
    picture = "data:image/png;base64,AA=="
    near = [
        *beside(1, "sky", labels=[[900, "sky", "ann"]], fields={"photo": picture}),
        *beside(1, "sky", labels=[[1_100, "sky", "ann"]]),
        *beside(1, "sky", arrived=1_100, labels=[[1_200, "sky", "ann"]]),
    ]
    table = record.neighbour_table(FOUND, near, "p")
    assert [texts(row)[3] for row in table.rows] == ["labelled", "not labelled", "not arrived"]
    assert [row[0].picture for row in table.rows] == [picture, None, None]
    assert "2 of them had no label yet" in table.summary


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"asked": False}, "requested records only"),
        ({"version": 0}, "not by a trained version"),
        ({}, "too many requests at that moment"),
        ({"why": None}, "the committee is not a tree model"),
    ],
)
def test_a_record_without_reasons_says_why_there_are_none(more, said):
    found = {key: value for key, value in FOUND.items() if key != "why"} | more
    assert said in record.contribution_table(found, VIEW).summary


def test_the_rival_of_a_record_that_nobody_judged_is_the_second_likeliest():
    table = record.contribution_table(FOUND | {"truth": None}, VIEW)
    assert [one.text for one in table.columns][3:] == ["For cement", "For sky"]


def test_a_list_of_records_names_what_spoke_for_each():
    (row,) = records.record_table([FOUND], "p").rows
    assert texts(row)[2:] == [
        "grass (disputed)",
        "cement",
        "60.0 %",
        "12",
        "hue +1.20",
        "ann (sky), bob (grass)",
    ]
    assert row[0].link == "/record?pipeline=p&id=1404"


def test_a_mistake_is_marked_and_differing_labels_are_named():
    (row,) = records.record_table([AGREED], "p").rows
    assert (row[3].colour, row[3].note) == ("bad", "wrong: ")
    assert row[-1] == "ann (sky), eve (grass), bob (grass)"  # by when each spoke last
    right = FOUND | {"label": "grass", "labels": [[1, "grass", "ann"], [2, "grass", None]]}
    (row,) = records.record_table([right], "p").rows
    assert (row[3], row[-1]) == ("grass", "ann, unknown annotator")


def test_annotators_whose_labels_metrics_leave_out_are_marked():
    (row,) = records.record_table([FOUND], "p", ["bob"]).rows
    assert row[-1] == "ann (sky), bob (grass) [left out]"


def test_who_took_a_label_back_said_nothing_of_a_record():
    labels = [[1, "sky", "ann"], [2, None, "ann"], [3, "grass", "bob"]]
    (row,) = records.record_table([FOUND | {"label": "grass", "labels": labels}], "p").rows
    assert row[-1] == "bob"


def test_nearness_takes_numbers_by_their_spread_and_words_as_they_are():
    others = [
        {"id": "same", "features": {"hue": 0.9, "row": 3.0, "name": "x"}},
        {"id": "other word", "features": {"hue": 0.9, "row": 3.0, "name": "y"}},
        {"id": "other hue", "features": {"hue": 1.0, "row": 3.0, "name": "x"}},
        {"id": "nothing", "features": {}},
    ]
    found = nearest_records(FOUND["features"], others)
    assert found[0][1] is others[0]
    assert {one["id"] for _, one in found[1:]} == {"other hue", "other word"}
    one_of_three = (1 / (2 / 9) / 3) ** 0.5  # of which one differs, whose variance is 2/9 of that
    assert [away for away, _ in found] == pytest.approx([0.0, one_of_three, one_of_three], abs=1e-3)
    far = {"id": "farther hue", "features": {"hue": 2.0, "row": 3.0, "name": "x"}}
    assert nearest_records(FOUND["features"], [*others, far])[-1][1] is far
    unlike = {"id": "unlike", "features": {"hue": "?", "row": None}}
    assert [one for _, one in nearest_records({"hue": 0.9, "tags": ["x"]}, [unlike])] == [unlike]


def test_it_is_said_since_when_a_feature_counts_as_shifted():
    def said(*indexes):
        points = [
            {"time": 1_000 * i, "psi": {} if one is None else {"hue": one}}
            for i, one in enumerate(indexes, start=1)
        ]
        return features.psi_curves(StatusSnapshot(points=points), "hue").summary

    assert said(0.1, 0.3, 0.1, 0.25, 0.4).endswith(
        f"shifted (0.2 or more) since {time_text(4_000)}."
    )
    assert said(0.25, None, 0.4).endswith(f"shifted (0.2 or more) since {time_text(1_000)}.")
    assert "no longer shifted (0.2 or more)" in said(0.1, 0.3, 0.1)
    assert f"largest PSI 0.15 at {time_text(2_000)}" in said(0.1, 0.15, 0.1)


def test_a_curve_and_the_table_say_the_same_of_when_a_feature_first_counted_as_shifted():
    def said(began, *indexes):
        points = [{"time": 1_000 * i, "psi": {"hue": one}} for i, one in enumerate(indexes, 1)]
        found = {"features": [{"name": "hue", "began": began}]}
        return features.psi_curves(
            StatusSnapshot(points=points, documents={"features": found}), "hue"
        ).summary

    assert f"(0.2 or more) since {time_text(1_500)}." in said(1_500, 0.1, 0.3, 0.3)
    assert f"(0.2 or more) again since {time_text(3_000)}." in said(500, 0.3, 0.1, 0.3)
    assert "no longer shifted" in said(500, 0.1, 0.1), "it was between two points"


def test_an_index_just_below_a_limit_does_not_look_as_if_it_were_on_it():
    one = {"name": "hue", "psi": 0.1996, "peak": 0.1996}
    view = StatusSnapshot(documents={"features": {"features": [one]}, "pipeline": {"name": "p"}})
    (row,) = features.feature_drift_table(view).rows
    assert (row[2].text, row[2].note) == ("0.1996", "slightly shifted: ")


def test_the_shift_that_matters_most_is_told_first_with_when_it_began_and_when_that_counted():
    def of(name, psi, peak, peaked, began, started=None):
        course = {"peak": peak, "peaked": peaked, "began": began, "started": started}
        return {"name": name, "psi": psi, **course}

    def seen(*found, **more):
        return StatusSnapshot(
            documents={"features": {"features": found}, "pipeline": {"name": "p"}, **more}
        )

    hue = of("hue", 0.05, 0.6, 3_000, 2_000, [1_234, 1_500])
    row, noise = of("row", 0.3, 0.3, 9_000, 1_000), of("noise", 5.0, 5.0, 9_000, 1_000, [70, 900])
    moved = seen(row, hue, noise)
    assert features.largest_shift_text(moved).startswith(
        f"noise shifted after about 70 records, at {time_text(900)}; its largest PSI was 5.00"
    )
    weighed = seen(row, hue, noise, importances={"row": 0.2, "hue": 0.6, "noise": 0.01})
    assert features.largest_shift_text(weighed) == (
        f"hue shifted after about 1,234 records, at {time_text(1_500)}; its largest PSI was 0.60, "
        f"at {time_text(3_000)}."
    )
    rows = {texts(row)[0]: texts(row)[2:6] for row in features.feature_drift_table(weighed).rows}
    assert rows["hue"] == ["0.05", "0.60", time_text(1_500), time_text(2_000)]
    assert rows["row"] == ["0.30", "0.30", f"before {time_text(1_000)}", time_text(1_000)]
    apart = features.largest_shift_text(seen(hue, workers={"0": {}}))
    assert "1,234 records" not in apart, "the learner has but the records that were asked about"
    points = [{"time": 1, "psi": {"hue": 0.3}}]
    one = features.psi_curves(StatusSnapshot(documents=moved.documents, points=points), "hue")
    assert one.summary.endswith(
        f"Its first shift began after about 1,234 records, at {time_text(1500)}."
    )
    calm = seen(of("hue", 0.05, 0.1, 3_000, None))
    assert features.largest_shift_text(calm) == (
        "No feature has ever counted as shifted (0.2 or more). The largest PSI since the start: "
        f"hue, 0.10 at {time_text(3_000)}."
    )
    assert texts(features.feature_drift_table(calm).rows[0])[4:6] == ["never", "never"]


def test_features_in_which_no_drift_is_followed_are_named():
    followed = [{"name": name} for name in ("a", "ts: hour", "vec[0]")]

    def said(*fields):
        documents = {"features": {"features": followed}, "pipeline": {"features": fields}}
        return features.unmeasured_fields_text(StatusSnapshot(documents=documents))

    assert said("a", "ts", "vec") == ""
    assert said("a", "os", "note") == " Drift is not measured for categories and texts: os, note."
    many = [f"word {i}" for i in range(20)]
    assert said(*many) == (
        f" Drift is not measured for categories and texts: {', '.join(many[:5])} and 15 more."
    )


def test_gaps_of_an_index_are_explained():
    points = [{"time": i, "psi": {"hue": 0.1} if i != 2 else {"row": 0.1}} for i in (1, 2, 3)]
    assert (
        "gaps of the curve, 64 other features had a larger PSI"
        in features.psi_curves(StatusSnapshot(points=points), "hue").summary
    )
    assert "gaps" not in features.psi_curves(StatusSnapshot(points=points[:1]), "hue").summary


def version(number):
    return {
        "version": number,
        "began": 1_000,
        "labels": 10 * number,
        "trees": 20,
        "rounds": 20,
        "knows": ["a"],
        "features": 3,
        "importances": {"hue": 1 / number, "row": 1 - 1 / number},
    }


def test_a_rollback_is_named_wherever_its_version_is():
    marks = [
        {"id": 1, "time": 1_000, "sequence": 5, "kind": "promoted", "version": 92},
        {"id": 2, "time": 9_000, "sequence": 6, "kind": "command", "version": 88}
        | {"text": "rollback 88"},
        {"id": 3, "time": 9_000, "sequence": 6, "kind": "promoted", "version": 93},
        {"id": 4, "time": 9_500, "sequence": 7, "kind": "command", "version": None}
        | {"text": "pause"},
    ]
    learner = {"version": 93, "paused": False}
    view = StatusSnapshot(marks=marks, documents={"pipeline": {"name": "p"}, "learner": learner})
    history = [texts(row)[1] for row in tables.committee_history_table(view).rows]
    assert history[1] == "Version 93 deployed (rolled back to 88)"
    assert history[3] == "Version 92 deployed"
    command = Command("rollback", 88)
    assert operations.command_result_text(view, command, 2) is None
    assert operations.command_result_text(view, command, 1) == (
        f"Done at {time_text(9_000)}: rollback 88. Version 93 (a copy of 88) is active since then."
    )
    known = [version(number) for number in (92, 93)]
    table = versions.version_table(known, [], [92, 93], "p", tables.rollback_origins(view))
    assert [texts(row)[0] for row in table.rows] == ["93 (a copy of 88)", "92"]


def test_what_the_last_rollback_came_to_is_said_also_after_it_is_over():
    def promoted(version, time, sequence):
        return {"kind": "promoted", "version": version, "time": time, "sequence": sequence}

    def said(*later):
        rollback = {"kind": "command", "version": 137, "time": 9_000, "sequence": 6}
        marks = [promoted(150, 8_000, 5), rollback, promoted(151, 9_000, 6), *later]
        serves = marks[-1]["version"]
        return operations.pipeline_summary(
            StatusSnapshot(marks=marks, documents={"learner": {"version": serves}})
        )

    began = f"Last rollback: version 137 redeployed as 151 at {time_text(9_000)}"
    assert said() == f"Version 151 (a copy of 137) is active. {began}."
    over = said(promoted(152, 12_000, 7), promoted(153, 15_000, 8))
    assert over == f"Version 153 is active. {began}, until version 152 at {time_text(12_000)}."


def test_what_a_version_lacks_is_said_before_it_is_rolled_back_to():
    known = {
        4: version(4),
        8: version(8) | {"knows": ["a", "b", "{}"], "features": 5},
    }
    marks = [
        {"kind": "drift", "version": 3, "time": 500, "sequence": 1},
        {"kind": "drift", "version": 6, "time": 9_000, "sequence": 2},
    ]
    shifts = [{"name": "hue", "began": 5_000}, {"name": "row", "began": 500}, {"name": "x"}]
    documents = {"learner": {"version": 8}, "features": {"features": shifts}}
    view = StatusSnapshot(marks=marks, documents=documents)
    told = [text.format(*names) for text, *names in operations.rollback_warnings(view, known, 4)]
    assert told == [
        "It learned from 40 labels fewer than version 8.",
        "It has not learned classes b, {}.",
        f"Drift was detected after it, last at {time_text(9_000)}.",
        "Shifted since it became active: feature hue.",
        "It lacks 2 newer columns.",
    ]
    assert operations.rollback_warnings(view, {8: known[8]}, 4) == []


def test_a_copy_has_learned_what_that_had_which_it_is_a_copy_of():
    command = {"kind": "command", "version": 4, "time": 9_000, "sequence": 6}
    promoted = {"kind": "promoted", "version": 9, "time": 9_000, "sequence": 6}
    view = StatusSnapshot(marks=[command, promoted], documents={"learner": {"version": 9}})
    again = tables.rollback_origins(view)
    known = versions.with_label_counts_of_originals([version(4), version(8), version(9)], again)
    assert [one["labels"] for one in known] == [40, 80, 40]
    table = versions.version_table(known, [], [4, 8, 9], "p", again)
    assert texts(table.rows[0])[::2][:2] == ["9 (a copy of 4)", "40"]
    by_number = {one["version"]: one for one in known}
    drift = {"kind": "drift", "version": 6, "time": 8_000, "sequence": 2}
    since = StatusSnapshot(marks=[drift, command, promoted], documents=view.documents)
    assert operations.rollback_warnings(since, by_number, 8) == []
    (said,) = operations.rollback_warnings(since, by_number, 4)
    assert said == ("It is identical to the active version 9.",)


def test_a_rollback_says_how_long_it_lasts():
    def said(paused, *times):
        marks = [{"kind": "promoted", "time": time} for time in times]
        return operations.rollback_duration_text(
            StatusSnapshot(marks=marks, documents={"learner": {"paused": paused}})
        )

    assert said(True) == "Training is paused: it stays active until training is resumed"
    assert said(False, 1_000).endswith("until the next training ends, unless training is paused")
    often = said(False, 0, 40_000, 80_000, 130_000)
    assert f"about every 40 s, the last one at {time_text(130_000)}" in often


def test_what_two_versions_go_by_stands_with_its_change():
    table = versions.importance_table(version(2), version(4))
    assert texts(table.rows[0]) == ["row", "50.0 %", "75.0 %", "+25.0 points"]


def test_a_distribution_has_a_share_then_and_now_for_every_bin():
    found = {"edges": [1.0, 2.0], "then": [5, 5, 0, 0], "now": [0, 5, 3, 2]}
    view = StatusSnapshot(documents={"distributions": {"hue": found}})
    table = features.distribution_table(view, "hue")
    assert [texts(row) for row in table.rows] == [
        ["below 1", "50.0 %", "0.0 %"],
        ["1 to 2", "50.0 %", "50.0 %"],
        ["2 and more", "0.0 %", "30.0 %"],
        ["missing", "0.0 %", "20.0 %"],
    ]
    assert "2 and more, from 0.0 % to 30.0 %" in table.summary
    assert not features.distribution_table(view, "row").rows


def test_the_index_of_a_feature_is_drawn_over_time_with_drift():
    points = [{"time": 1}, {"time": 2, "psi": {"hue": 0.1}}, {"time": 3, "psi": {"hue": 0.25}}]
    mark = {"id": 1, "time": 2, "sequence": 1, "kind": "drift", "version": 1, "text": ""}
    drawn = features.psi_curves(StatusSnapshot(points=points, marks=[mark]), "hue")
    assert (list(drawn.times), list(drawn.series[0].values)) == ([2, 3], [0.1, 0.25])
    limit = drawn.series[1]
    assert (limit.name, limit.values) == ("shifted from 0.2", [0.2, 0.2])
    assert [group.name for group in drawn.marks] == ["drift"]
    assert not features.psi_curves(StatusSnapshot(points=points), "row").times


BOB = User("bob", "seat", "operator")


def test_a_mended_record_is_written_to_where_records_are_read(site):
    letter = {"source": "records"}
    dead_letters.resend_dead_letter(letter, '{"id": "again", "a": 1.5}', site.served, BOB)
    assert read(site.served.config, "records")[-1] == {"id": "again", "a": 1.5}


def test_a_mended_label_is_its_senders(site):
    text = '{"id": "5", "label": "left", "source": "mallory"}'
    dead_letters.resend_dead_letter({"source": "labels"}, text, site.served, BOB)
    (*_, last) = read(site.served.config, "labels")
    assert (last["id"], last["label"], last["source"]) == ("5", "left", "bob")
    assert site.served.queue.history(1)[0].person == "bob"


def test_a_label_is_sent_again_also_where_its_fields_lie_deeper(tmp_path):
    names = '[labels.fields]\nid = "ref.id"\nlabel = "truth.label"'
    labels = '[labels]\nconnector = "sqlite"\nstream = "labels"'
    text = '{"ref": {"id": "3"}, "truth": {"label": "left"}}'
    with site_of(make_file(tmp_path / "deep", f"{labels}\n{names}")) as site:
        dead_letters.resend_dead_letter({"source": "labels"}, text, site.served, BOB)
        (sent,) = read(site.served.config, "labels")
    assert (sent["ref.id"], sent["truth.label"], sent["source"]) == ("3", "left", "bob")


@pytest.mark.parametrize("source", ["records", "labels"])
def test_what_cannot_be_used_either_is_refused_and_written_nowhere(site, source):
    before = read(site.served.config, source)
    for text in ("", "[1]", "{", '{"a": 1}', "null", "[" * 5_000):
        with pytest.raises(DataError):
            dead_letters.resend_dead_letter({"source": source}, text, site.served, BOB)
    assert read(site.served.config, source) == before


def test_a_record_is_told_of_whatever_its_id_is(file):
    config, ids = load(file), ("https://example.org/a?b#c", "..", "a\nb", "\u00e9 %2F", SCRIPT)
    put(config, "records", [{"id": id, "a": 0.1, "b": 0.9} for id in ids])
    put(config, "labels", [{"id": id, "label": "left"} for id in ids])
    run(config, until_idle=True)
    with site_of(file) as site:
        program = site.program()
        for id in ids:
            told = program.get("/api/v1/pipelines/test/record", params={"id": id})
            assert (told.status_code, told.json()["id"]) == (200, id)


def test_the_api_tells_of_labelled_records_and_of_one_with_its_reasons(site):
    program = site.program()
    found = program.get("/api/v1/pipelines/test/judged", params={"limit": 500}).json()
    assert found
    truth = found[0]["truth"]
    some = program.get("/api/v1/pipelines/test/judged", params={"true": truth}).json()
    assert {one["truth"] for one in some} == {truth} < {one["truth"] for one in found}
    record = "/api/v1/pipelines/test/record"
    assert program.get(record, params={"id": found[0]["id"]}).json() == found[0]
    missing = program.get(record, params={"id": "nobody"})
    assert (missing.status_code, "no longer stored" in missing.json()["detail"]) == (404, True)
    served = program.get("/api/v1/pipelines/test/served_versions").json()
    assert served[-1]["version"] > 0
