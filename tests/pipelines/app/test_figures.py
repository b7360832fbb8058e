import numpy as np

from streamboost.evaluation.evaluation import Evaluation
from streamboost.pipelines.app.inspect import NO_FIGURE, annotator_lines, metric_lines
from streamboost.predictions import Scored


def judged(n, *, asked):
    """Return the document after n records; if asked, half of the labels precede half of them."""
    rng = np.random.default_rng(1)
    P = rng.dirichlet([0.5, 0.5], size=n)
    classes = np.array(["low", "high"], dtype=object)
    evaluation = Evaluation()
    for rows in np.array_split(np.arange(n), 2):
        scored = Scored(classes[P[rows].argmax(axis=1)], classes, P[rows], np.zeros(len(rows)), 1)
        ids = rows.astype(str).tolist()
        evaluation.add_records(ids, scored, np.full(len(rows), 1.0 if asked else np.nan))
        if asked:
            evaluation.add_labels(ids, rng.choice(classes, size=len(rows)).tolist())
    return evaluation.to_json()


def test_every_figure_stands_beside_its_interval_and_the_baselines():
    found = judged(200, asked=True)
    text = "\n".join(metric_lines(found))
    value = found["since_start"]["committee"]["accuracy"]["value"]
    assert f"accuracy        {value:.3f} ({value:.3f}-{value:.3f})" in text
    for word in ("balanced", "kappa", "log loss", "repeat last", "majority", "low", "high"):
        assert f"\n    {word}" in text
    assert "a biased sample" in text
    assert "90% to 100%" in text
    assert NO_FIGURE not in text


def test_who_is_left_out_is_told_with_what_the_labels_would_change():
    found = judged(200, asked=True)
    before = found["since_start"]["committee"]["accuracy"]
    for part in ("since_start", "recent"):
        found[part] |= {"left_out": ["eve"], "accuracy_with_left_out": before}
    moved, named = [line for line in metric_lines(found) if "all labels" in line or "eve" in line]
    assert moved.startswith(f"    with all labels {before['value']:.3f}")
    assert named.startswith("    left out        eve: ")
    assert not any("all labels" in line for line in metric_lines(judged(200, asked=True)))


def test_where_no_answer_tells_no_figure_is_shown():
    lines = list(metric_lines(judged(50, asked=False)))
    assert sum(NO_FIGURE in line for line in lines) == 8
    assert not any("metrics by class" in line for line in lines)


def test_nothing_is_said_before_the_first_record():
    assert list(metric_lines(judged(0, asked=False))) == []


def test_lines_fit_a_terminal_of_100_columns():
    assert max(map(len, metric_lines(judged(200, asked=True)))) <= 100


def test_annotators_are_told_with_what_their_labels_came_to():
    found = {
        "bob": {"labels": 2, "shared": 1, "agreed": 0, "judged": 0, "confirmed": 0},
        "ann": {"labels": 9, "shared": 1, "agreed": 0, "judged": 4, "confirmed": 3},
    }
    lines = [line.split() for line in annotator_lines(found)]
    assert lines[2] == ["ann", "9", "0", "of", "1", "3", "of", "4"]
    assert lines[3] == ["bob", "2", "0", "of", "1", "none"]
