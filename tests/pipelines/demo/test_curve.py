from streamboost.pipelines.demo.compare import PrequentialAccuracy, RunProgress
from streamboost.pipelines.demo.curve import Axes, LearningCurves, render_curves


def progress(labels, recent, repeated=0.3):
    return RunProgress("margin", 500, 1_000, 0.5, labels, 10, recent, repeated)


def curves_of(*states):
    curves = LearningCurves()
    for state in states:
        curves.add(state)
    return curves


def test_a_curve_has_the_newest_accuracy_for_each_number_of_labels():
    curves = curves_of(progress(1, 0.2), progress(2, 0.4), progress(2, 0.5), progress(3, 0.6))
    assert curves.points_by_strategy(["margin", "repeat_last"]) == {
        "margin": [(1, 0.2), (2, 0.5), (3, 0.6)],
        "repeat_last": [(1, 0.3), (2, 0.3), (3, 0.3)],
    }
    assert list(curves.points_by_strategy(["margin"])) == ["margin"]


def test_before_enough_was_predicted_there_is_no_curve():
    curves = curves_of(progress(0, 0.2), progress(5, None), progress(5, None, None))
    assert curves.points_by_strategy(["margin", "repeat_last"]) == {"repeat_last": [(5, 0.3)]}


def test_what_was_not_predicted_is_wrong_and_no_part_of_a_curve():
    tally = PrequentialAccuracy(dict.fromkeys(map(str, range(100)), "sky"))
    for n in range(40):
        tally.add(str(n), None)
    for n in range(40, 59):
        tally.add(str(n), "sky")
    assert tally.recent is None
    tally.add("59", "sky")
    assert tally.recent == 1.0
    assert tally.result("margin", 1, 1.0).accuracy == 20 / 60


def test_a_long_curve_is_thinned_evenly_over_a_logarithmic_axis():
    curves = curves_of(*(progress(n, n / 10_000) for n in range(1, 10_001)))
    points = curves.points_by_strategy(["margin"], limit=50)["margin"]
    assert len(points) <= 50
    assert points[-1] == (10_000, 1.0)
    assert 10 < sum(n < 100 for n, _ in points) < 30


def test_axes_hold_all_points_and_name_round_numbers():
    axes = Axes.from_curves({"margin": [(7, 0.42), (80, 0.88)], "all": [(20, 0.5), (3_000, 0.97)]})
    assert (axes.first, axes.last, axes.low, axes.high) == (7, 3_000, 0.4, 1.0)
    assert list(axes.ticks()) == [10, 100, 1_000]
    assert (
        axes.x_position(7),
        axes.x_position(3_000),
        axes.y_position(0.4),
        axes.y_position(1.0),
    ) == (0, 1, 0, 1)


def test_a_single_point_and_a_perfect_one_can_be_drawn():
    for points in ([(3, 0.5)], [(3, 1.0)], [(3, 0.0)], [(1, 1.0), (2, 1.0)]):
        text = render_curves({"margin": points}, 60).plain
        rows = [line for line in text.splitlines() if "|" in line]
        assert sum("*" in row for row in rows) == 1


def test_curves_stand_at_their_heights_within_the_width():
    curves = {"margin": [(10, 0.5), (100, 1.0)], "all": [(10, 0.0), (1_000, 0.5)]}
    for width in (40, 80, 100):
        lines = render_curves(curves, width).plain.splitlines()
        rows = [line for line in lines if "|" in line]
        assert max(len(line) for line in lines) <= max(width, len(lines[0]))
        assert "*" in rows[0]
        assert "*" in rows[len(rows) // 2]
        assert "+" in rows[-1]
        assert rows[0].startswith(" 100% |")
        assert rows[-1].startswith("   0% |")
        (axis,) = [line for line in lines if "1,000" in line]
        assert axis.split() == ["10", "100", "1,000"]
