import math
from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest

from streamboost.features.time import as_datetime
from tests.features.making import STRANGE, single

NOON = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)  # a Sunday, the 60th day

WRITTEN = [
    NOON, NOON.timestamp(), int(NOON.timestamp()), NOON.timestamp() * 1000, "1772368200",
    "1772368200000", "1772368200.0", "2026-03-01T12:30:00Z", "2026-03-01T12:30:00+00:00",
    "2026-03-01 12:30:00", " 2026-03-01T12:30 ", "20260301T123000", "2026-03-01T14:30:00+02:00",
    datetime(2026, 3, 1, 12, 30), datetime(2026, 3, 1, 7, 30, tzinfo=timezone(timedelta(hours=-5))),
    pd.Timestamp(NOON), "2026-W09-7T12:30:00",
]  # fmt: skip


@pytest.mark.parametrize("value", WRITTEN, ids=str)
def test_one_moment_may_be_written_in_many_ways(value):
    assert as_datetime(value, UTC) == NOON
    features = single("time")
    assert features.encode_arrivals([(value,)])[0, :3].tolist() == [12.5, 6, 60]
    assert not features.unreadable


@pytest.mark.parametrize("value", ["2026-03-01", "20260301", date(2026, 3, 1)], ids=str)
def test_a_date_is_its_midnight(value):
    assert as_datetime(value, UTC) == datetime(2026, 3, 1, tzinfo=UTC)


def test_seconds_and_milliseconds_are_told_apart_by_their_size():
    assert as_datetime(99_999_999_999, UTC).year == 5138
    assert as_datetime(100_000_000_000, UTC).year == 1973
    assert as_datetime(-1, UTC) == datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert as_datetime(0, UTC) == as_datetime("-0.0", UTC) == datetime(1970, 1, 1, tzinfo=UTC)


def test_hours_and_days_are_those_of_the_zone():
    features = single("time", zone="Asia/Tokyo")
    rows = features.encode([("2026-12-31T20:15:00Z",), ("2027-01-01T05:15:00",)])
    assert rows[:, :3].tolist() == [[5.25, 4, 1]] * 2, "what bears no zone is there already"


def test_summer_time_counts():
    berlin = ZoneInfo("Europe/Berlin")
    hours = [as_datetime(f"2026-0{month}-29T00:30:00Z", berlin).hour for month in (1, 6)]
    assert hours == [1, 2]


def test_seconds_since_the_record_before_also_where_several_come_at_once():
    features = single("time")
    times = [1000, 1060, 1060, None, 1050, "nonsense", 1055]
    since = features.encode_arrivals([(time,) for time in times])[:, 3]
    np.testing.assert_array_equal(since, [np.nan, 60, 0, np.nan, -10, np.nan, 5])
    assert features.unreadable == {"a": 1}


def test_asking_for_a_row_takes_no_time_in():
    features = single("time")
    features.encode_arrivals([(1000,)])
    for _ in range(2):
        assert features.encode([(1060,), (1000,)])[:, 3].tolist() == [60, 0]
    features.observe((1060,))
    assert features.encode([(1060,)])[0, 3] == 0


@pytest.mark.parametrize("value", [None, "", " ", float("nan"), pd.NaT, pd.NA], ids=repr)
def test_a_missing_time_is_nan_and_not_counted(value):
    features = single("time")
    assert np.isnan(features.encode_arrivals([(value,)])).all()
    assert not features.unreadable


NO_TIMES = ["nonsense", "2026-02-30", True, float("inf"), 1e300, [1], {"a": 1}, "12:30", "1.2.3"]


@pytest.mark.parametrize("value", NO_TIMES, ids=str)
def test_what_is_no_time_is_missing_and_counted(value):
    features = single("time")
    assert np.isnan(features.encode_arrivals([(value,)])).all()
    assert features.unreadable == {"a": 1}


EDGES = [datetime.min, datetime.max, *(t.replace(tzinfo=UTC) for t in (datetime.min, datetime.max))]


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
@pytest.mark.parametrize("value", [*EDGES, *STRANGE.values()], ids=[*map(str, EDGES), *STRANGE])
def test_whatever_stands_there_is_read_or_missing(value, zone):
    features = single("time", zone=zone)
    for _ in range(2):
        (row,) = features.encode_arrivals([(value,)])
        assert all(math.isfinite(x) for x in row[:3]) or np.isnan(row).all()
