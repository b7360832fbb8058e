import io

import pytest
from rich.console import Console

from streamboost.pipelines.demo import compare as demo
from streamboost.pipelines.demo import table as screen

STATES = [demo.RunProgress("margin", n, 1_234, 0.5, n // 10, 100) for n in range(10, 1_235, 10)]


def shown(console):
    with screen.progress_display(console) as show:
        for state in [*STATES, demo.RunProgress("margin", 1_234, 1_234, 0.75, 123, 100)]:
            show(state)
    return console.file.getvalue()


def test_on_a_terminal_a_bar_ends_at_the_last_state():
    out = shown(Console(file=io.StringIO(), force_terminal=True, width=100, color_system=None))
    last = next(line for line in reversed(out.splitlines()) if "margin" in line)
    assert "1,234 of 1,234 records accuracy  75.0%, 123 labels bought, 100 trees" in last


def test_elsewhere_a_line_comes_now_and_then_and_at_the_end():
    out = shown(Console(file=io.StringIO(), width=100))
    assert out.splitlines() == [
        "margin: 500 of 1,234 records, accuracy  50.0%, 50 labels bought, 100 trees",
        "margin: 1,000 of 1,234 records, accuracy  50.0%, 100 labels bought, 100 trees",
        "margin: 1,234 of 1,234 records, accuracy  75.0%, 123 labels bought, 100 trees",
    ]


def test_each_line_says_the_run_and_the_time_left_of_it():
    console, times = Console(file=io.StringIO(), width=100), iter([0.0, 40.0, 60.0, 100.0])
    with screen.progress_display(console, 2, lambda: next(times)) as show:
        for strategy, records in (("margin", 0), ("margin", 500), ("margin", 1_250), ("all", 1)):
            show(demo.RunProgress(strategy, records, 1_250, 0.5, 1, 2))
    first, last = console.file.getvalue().splitlines()
    assert first.startswith("margin (run 1 of 2): 500 of 1,250 records, ")
    assert first.endswith(", about 60 s left")
    assert "left" not in last


def test_the_table_has_a_line_for_each_row_and_fits_a_narrow_terminal():
    rows = [
        demo.StrategyResult(name, 2_310, 231, 0.871, 0.962, 0.87, 0.8, 2_888)
        for name in demo.STRATEGIES
    ]
    console = Console(file=io.StringIO(), width=80)
    console.print(screen.results_table(rows))
    lines = [line.strip() for line in console.file.getvalue().splitlines()]
    assert " ".join(lines[4].split()) == "margin 231 87.1% 96.2% 87.0% 0.8 s 2,888"
    assert (
        " ".join(lines[6].split())
        == f"repeat last 231 87.1% 96.2% 87.0% {screen.NO_FIGURE} {screen.NO_FIGURE}"
    )
    assert len([line for line in lines if "2,888" in line]) == 3


def test_a_bar_is_drawn_only_where_there_is_room_for_it():
    for width in (80, 99, 100, 120):
        out = shown(
            Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None)
        )
        assert ("━" in out) == (width >= 100)
        assert "100 trees" in out


def test_one_label_is_one_label():
    console = Console(file=io.StringIO(), width=100)
    with screen.progress_display(console) as show:
        show(demo.RunProgress("margin", 500, 1_234, 0.5, 1, 100))
    assert "1 label bought" in console.file.getvalue()


@pytest.mark.parametrize("width", range(73, 81))
def test_nothing_in_the_table_wraps(width):
    rows = [
        demo.StrategyResult(name, 2_310, 231, 0.871, 0.962, 0.87, 0.8, 2_888)
        for name in demo.STRATEGIES
    ]
    console = Console(file=io.StringIO(), width=width)
    console.print(screen.results_table(rows))
    assert "repeat last" in console.file.getvalue()
    assert len(console.file.getvalue().splitlines()) == 11
