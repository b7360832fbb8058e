"""What holds for every panel of the dashboard."""

import pytest

from streamboost.pipelines.service.pages.charts import Curves
from streamboost.pipelines.service.pages.panels import PANELS
from streamboost.pipelines.service.pages.view import View


def test_each_panel_has_a_title_of_its_own_and_says_what_it_shows():
    titles = [title for title, _, _ in PANELS]
    assert len({title.lower().replace(" ", "-") for title in titles}) == len(titles)
    assert all(about.endswith(".") for _, about, _ in PANELS)


@pytest.mark.parametrize("find", [pytest.param(find, id=title) for title, _, find in PANELS])
def test_a_panel_without_a_status_says_what_it_waits_for(find):
    empty = find(View())
    assert not (empty.times if isinstance(empty, Curves) else empty.rows)
    assert empty.summary.endswith(".")
