"""A status is read once for all clients."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

from streamboost.pipelines.dashboard.view import SELDOM, StatusFeed
from streamboost.pipelines.status.file import StatusFile
from streamboost.pipelines.status.reader import StatusReader


def content(sequence):
    return {
        "documents": {
            "pipeline": (0, f'{{"sequence": {sequence}}}'),
            "join": (0, '{"open_requests": 1}'),
        },
    }


def looks(folder, steps):
    """Return what each of `steps` saw, which writes or says how much time passes."""
    now, views = [0.0], []

    async def look_on():
        with ThreadPoolExecutor(1) as threads:
            feed = StatusFeed(StatusReader(folder), threads, clock=lambda: now[0])
            for step in steps:
                now[0] += step()
                views.extend(await asyncio.gather(*(feed.read() for _ in range(5))))

    asyncio.run(look_on())
    return views


def test_nothing_is_shown_of_what_is_not_there(tmp_path):
    view = looks(tmp_path, [lambda: 1.0])[-1]
    assert view.document("pipeline") == {}
    assert view.n_open_requests == 0


def test_all_who_look_at_one_time_get_the_same_view(tmp_path):
    file = StatusFile(tmp_path / "status.db")

    def write(sequence, seconds):
        file.write(content(sequence))
        return seconds

    views = looks(tmp_path, [lambda: write(1, 2.0), lambda: write(2, 0.1), lambda: write(3, 2.0)])
    file.close()
    assert [view.document("pipeline")["sequence"] for view in views] == [1] * 10 + [3] * 5
    assert len({id(view) for view in views}) == 2
    assert views[-1].n_open_requests == 1


def test_a_status_that_did_not_change_is_not_read_again(tmp_path):
    file = StatusFile(tmp_path / "status.db")
    file.write(content(1))
    views = looks(tmp_path, [lambda: 2.0, lambda: 2.0])
    file.close()
    assert views[0] is views[-1]


def test_that_a_process_has_gone_is_seen_although_it_said_nothing(tmp_path):
    file = StatusFile(tmp_path / "status.db")
    file.write(content(1))
    there, views = [True], []

    async def look_on():
        with ThreadPoolExecutor(1) as threads:
            clock = iter(range(0, 100, 10)).__next__
            feed = StatusFeed(StatusReader(tmp_path), threads, lambda: there[0], clock)
            views.append(await feed.read())
            there[0] = False
            views.append(await feed.read())

    asyncio.run(look_on())
    file.close()
    assert [view.runs for view in views] == [True, False]
    assert views[0].number == views[1].number


def labelled(n):
    """A status in which n labels came, of records that version 3 predicted."""
    value = json.dumps({"version": 3, "propensity": 0.5, "arrived": 1})
    records = {str(i): (i, "a", "a", value) for i in range(n)}
    return {"documents": {"join": (0, json.dumps({"labels": n}))}, "records": records}


def test_what_labels_tell_is_read_again_where_more_came_but_not_with_each_look(tmp_path):
    file, now, seen = StatusFile(tmp_path / "status.db"), [0.0], []

    async def look_on():
        with ThreadPoolExecutor(1) as threads:
            feed = StatusFeed(StatusReader(tmp_path), threads, clock=lambda: now[0])
            for n, seconds, afresh in (
                (2, 2.0, 0),
                (3, 2.0, 0),
                (3, 0.0, 1),
                (4, 2.0, 0),
                (4, SELDOM, 0),
            ):
                file.write(labelled(n))
                now[0] += seconds
                seen.append((await feed.read(fresh_labels=bool(afresh))).evidence)

    asyncio.run(look_on())
    file.close()
    assert [len(one.predictions) for one in seen] == [2, 2, 3, 3, 4]
    assert seen[0] is seen[1]


def test_looking_afresh_at_what_did_not_change_reads_what_labels_tell_once(tmp_path):
    file, now, seen = StatusFile(tmp_path / "status.db"), [0.0], []

    async def look_on():
        with ThreadPoolExecutor(1) as threads:
            feed = StatusFeed(StatusReader(tmp_path), threads, clock=lambda: now[0])
            for n, afresh in ((2, False), (3, False), (None, True), (None, True), (None, False)):
                if n is not None:
                    file.write(labelled(n))
                now[0] += 2.0
                seen.append(await feed.read(fresh_labels=afresh))

    asyncio.run(look_on())
    file.close()
    assert [len(one.evidence.predictions) for one in seen] == [2, 2, 3, 3, 3]
    assert [one.number for one in seen] == [1, 2, 2, 2, 2], "nobody need draw it again"
    assert seen[2] is seen[3] is seen[4]


def test_labels_of_annotators_that_are_left_out_are_no_evidence(tmp_path):
    file = StatusFile(tmp_path / "status.db")
    evaluation = json.dumps({"recent": {"left_out": ["eve"]}})
    about = {"version": 3, "propensity": 0.5, "arrived": 1}
    votes = {"0": [[2, "a", "ann"]], "1": [[2, "a", "eve"]], "2": [[2, "a", None]], "3": []}
    file.write(
        {
            "documents": {"evaluation": (0, evaluation)},
            "records": {
                id: (2, "a", "a", json.dumps(about | {"labels": labels}))
                for id, labels in votes.items()
            },
        }
    )
    (view, *_) = looks(tmp_path, [lambda: SELDOM])
    file.close()
    assert [one.source for one in view.evidence.predictions] == ["ann", None, None]


def test_what_labels_tell_is_looked_for_again_where_nothing_could_be_read(tmp_path):
    file, now, seen = StatusFile(tmp_path / "status.db"), [0.0], []
    unread = {"documents": labelled(3)["documents"]}

    async def look_on():
        with ThreadPoolExecutor(1) as threads:
            feed = StatusFeed(StatusReader(tmp_path), threads, clock=lambda: now[0])
            for written in (unread, labelled(3)):
                file.write(written)
                now[0] += SELDOM
                seen.append((await feed.read()).evidence.predictions)

    asyncio.run(look_on())
    file.close()
    assert [len(one) for one in seen] == [0, 3]
