"""File rotation: truncated, renamed and replaced files, between two polls and while stopped."""

import gzip
import json
import os
import shutil
from contextlib import closing

import pytest

from streamboost.connectors.files.csv import CsvSource
from streamboost.connectors.files.json_lines import JsonLinesSource
from streamboost.connectors.files.open import file_source
from streamboost.connectors.files.rotation import find_unread_link_targets
from streamboost.errors import ConnectorError, DeletedError

OLD = [b'{"id": "old %d"}' % n for n in range(100)]
NEW = [b'{"id": "new %d"}' % n for n in range(300)]


def write(path, lines, mode="wb"):
    with path.open(mode) as file:
        file.writelines(line + b"\n" for line in lines)


def rename(path):
    path.rename(path.with_name("records.jsonl.1"))
    write(path, NEW)


def rename_with_a_date_before_the_ending(path):
    path.rename(path.with_name("records-20260101.jsonl"))
    write(path, NEW)


def copy_and_truncate(path):
    shutil.copy(path, path.with_name("records.jsonl.1"))
    write(path, NEW)  # the inode stays the same


ROTATIONS = [rename, rename_with_a_date_before_the_ending, copy_and_truncate]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "records.jsonl"
    write(path, OLD)
    return path


class Restarting:
    """Reads with a source, which is another one after each poll if `stopped`."""

    def __init__(self, path, stopped, **options):
        self.path, self.stopped, self.options = path, stopped, options
        self.source = file_source(path, **options)
        self.polled = []

    def poll(self, limit):
        if self.stopped:
            bookmark, position = self.source.content_fingerprint, self.source.position()
            self.source.close()
            self.source = file_source(self.path, **self.options)
            if bookmark is not None:
                self.source.set_expected_content(bookmark)
            self.source.seek(position)
        start = self.source.position()["0"]
        found = self.source.poll(limit)
        self.polled.append(
            (self.source.content_fingerprint, start, self.source.position()["0"], found)
        )
        return [message.payload for message in found]

    def close(self):
        self.source.close()

    def rest(self, limit=70):
        found = []
        while lines := self.poll(limit):
            found += lines
        return found


@pytest.fixture(params=[False, True], ids=["between two polls", "while stopped"])
def reading(request, path):
    made = []

    def make(**options):
        made.append(Restarting(path, request.param, **options))
        return made[-1]

    yield make
    for one in made:
        one.source.close()


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("rotate", ROTATIONS)
@pytest.mark.parametrize("n_read", [0, 1, 50, 100])
def test_nothing_of_a_rotated_file_nor_of_a_longer_one_in_its_place_is_skipped(
    path, reading, rotate, follow, n_read
):
    one = reading(follow=follow)
    assert (one.poll(n_read) if n_read else []) == OLD[:n_read]
    rotate(path)
    # Of a file that was never read nobody knows that it was there.
    assert one.rest() == (OLD[n_read:] + NEW if n_read else NEW)


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("header", ["", "id\n"])
def test_a_copy_is_read_of_a_file_that_was_empty_when_it_was_polled(
    tmp_path, reading, header, follow
):
    path = tmp_path / ("records.csv" if header else "records.jsonl")
    path.write_text(header)
    os.utime(path, (1, 1))
    older = tmp_path / f"{path.name}.2"
    older.write_text(header + '{"id":"older"}\n')
    os.utime(older, (0, 0))
    one = reading(follow=follow)
    one.path = path
    one.source.close()
    one.source = file_source(path, follow=follow)
    assert one.poll(70) == []
    written = [[f'{{"id":"{name} {n}"}}' for n in range(100)] for name in ("old", "new")]
    lines = [[line[7:-2] if header else line for line in lines] for lines in written]
    path.write_text(header + "".join(f"{line}\n" for line in lines[0]))
    shutil.copy(path, tmp_path / f"{path.name}.1")
    path.write_text(header + "".join(f"{line}\n" for line in lines[1]))
    assert [line.decode() for line in one.rest()] == written[0] + written[1]
    with closing(file_source(path)) as replay:
        for bookmark, start, end, found in one.polled[1:]:
            replay.set_expected_content(bookmark)
            assert replay.read_range({"0": (start, end)}, len(found)) == found


@pytest.mark.parametrize("rotate", ROTATIONS)
def test_every_part_is_read_again_as_it_was_read(path, reading, rotate):
    one = reading()
    one.poll(50)
    rotate(path)
    one.rest()
    with closing(file_source(path)) as replay:
        for bookmark, start, end, found in one.polled:
            replay.set_expected_content(bookmark)
            assert replay.read_range({"0": (start, end)}, len(found)) == found
        first, last = one.polled[0], one.polled[-1]
        everything = replay.read_range({"0": (first[1], last[2])}, 400)
        assert [message.payload for message in everything] == OLD + NEW


@pytest.mark.parametrize("n_new", [0, 3])
def test_a_copied_file_is_read_to_its_end_although_the_truncated_one_is_shorter(
    path, reading, n_new
):
    one = reading(follow=True)
    one.poll(50)
    shutil.copy(path, path.with_name("records.jsonl.1"))
    write(path, NEW[:n_new])
    assert one.rest() == OLD[50:] + NEW[:n_new]
    write(path, NEW[n_new:], "ab")
    assert one.rest() == NEW[n_new:]


def test_the_rest_of_a_removed_file_that_is_open_is_read(path):
    with closing(JsonLinesSource(path)) as source:
        source.poll(1)
        path.unlink()
        write(path, NEW)
        assert [m.payload for m in source.poll(200)] == OLD[1:]
        assert [m.payload for m in source.poll(999)] == NEW


def test_lines_added_to_the_old_file_before_the_new_one_has_any_are_read(path, reading):
    one = reading(follow=True)
    one.rest()
    old = path.rename(path.with_name("records.jsonl.1"))
    assert one.poll(9) == []
    path.touch()
    write(old, [b'{"id": "late"}'], "ab")
    assert one.rest() == [b'{"id": "late"}']
    write(path, NEW)
    assert one.rest() == NEW


def test_a_last_line_without_an_end_in_a_file_that_is_done_waits_no_longer(path, reading):
    one = reading(follow=True)
    with path.open("ab") as file:
        file.write(b'{"id": "last"}')
    assert one.rest() == OLD
    rename(path)
    assert one.rest() == [b'{"id": "last"}', *NEW]


@pytest.mark.parametrize("new", [NEW, OLD[:30], []], ids=["longer", "shorter", "empty"])
@pytest.mark.parametrize("n_read", [50, 100])
def test_a_file_written_over_ends_the_run_with_the_reason(path, reading, new, n_read):
    one = reading(follow=True)
    one.poll(n_read)
    write(path, new)
    for _ in range(2):
        with pytest.raises(
            DeletedError, match=r'truncated, rotated or replaced.*on_data_loss = "cont'
        ):
            one.poll(10)


def test_or_is_read_from_its_beginning_and_the_gap_counted(path, reading):
    one = reading(on_data_loss="continue")
    one.poll(50)
    end = one.source.position()["0"]
    write(path, NEW)
    assert one.poll(10) == NEW[:10]
    assert one.source.skipped_ranges == {"0": (end, end + 1)}
    assert one.poll(10) == NEW[10:20]
    assert one.source.skipped_ranges == {}
    bookmark, _, place, found = one.polled[1]
    with closing(file_source(path)) as replay:
        replay.set_expected_content(bookmark)
        assert replay.read_range({"0": (end + 1, place)}, 10) == found


def test_what_a_gap_took_is_not_replayed_from_the_file_in_its_place(path, reading):
    one = reading(on_data_loss="continue")
    one.poll(50)
    bookmark, start, end, found = one.polled[0]
    write(path, NEW)
    with closing(file_source(path, on_data_loss="continue")) as replay:
        replay.set_expected_content(bookmark)
        with pytest.raises(DeletedError, match="other content"):
            replay.read_range({"0": (start, end)}, len(found))


@pytest.mark.parametrize("on_data_loss", ["fail", "continue"])
def test_files_that_came_between_are_named_or_counted_as_a_gap(path, reading, on_data_loss):
    one = reading(on_data_loss=on_data_loss)
    one.rest()
    for number in (2, 1):
        path.rename(path.with_name(f"records.jsonl.{number}"))
        write(path, NEW)
    for second, name in enumerate(("records.jsonl.2", "records.jsonl.1", "records.jsonl")):
        os.utime(path.with_name(name), (1_000_000 + second, 1_000_000 + second))
    (path.parent / "records.json").touch()
    if on_data_loss == "continue":
        assert one.poll(999) == NEW
        assert len(one.source.skipped_ranges) == 1
        return
    with pytest.raises(DeletedError, match=r"but records\.jsonl\.1 in its folder came between"):
        one.poll(9)
    # As the error says: appended to the old file and moved away, they are read.
    old, between = path.with_name("records.jsonl.2"), path.with_name("records.jsonl.1")
    (path.parent / "away").mkdir()
    between.rename(path.parent / "away" / between.name)
    write(old, NEW, "ab")
    assert one.rest() == NEW + NEW


def test_a_file_that_is_written_anew_with_more_is_read_on(path, reading):
    one = reading()
    one.poll(50)
    for lines in (OLD + NEW[:100], OLD + NEW):
        path.unlink()
        write(path, lines)
        one.rest()
    assert one.rest() == []
    seen = [message.payload for _, _, _, found in one.polled for message in found]
    assert seen == OLD + NEW


def test_labels_held_back_from_before_a_rotation_are_read_again(path):
    with closing(JsonLinesSource(path)) as source:
        first = source.poll(60)
        rename(path)
        source.poll(99)
        source.poll(10)
        bookmark = source.content_fingerprint
    with closing(JsonLinesSource(path)) as source:
        source.set_expected_content(bookmark)
        source.seek({"0": first[50].offset})
        found = [m.payload for _ in range(3) for m in source.poll(999)]
    assert found == OLD[50:] + NEW


def test_the_lag_counts_what_is_left_of_the_old_file_and_the_new_one(path):
    with closing(JsonLinesSource(path)) as source:
        source.poll(99)
        rename(path)
        bookmark, position = source.content_fingerprint, source.position()
    with closing(JsonLinesSource(path, follow=True)) as source:
        source.set_expected_content(bookmark)
        source.seek(position)
        assert source.lag() == len(OLD[-1]) + 1 + path.stat().st_size


def test_a_compressed_file_that_another_replaced_is_noticed(tmp_path):
    path = tmp_path / "records.jsonl.gz"
    path.write_bytes(gzip.compress(b"".join(line + b"\n" for line in OLD)))
    with closing(JsonLinesSource(path)) as source:
        source.poll(50)
        bookmark, position = source.content_fingerprint, source.position()
    content = gzip.compress(b"".join(line + b"\n" for line in NEW))
    path.write_bytes(content)
    with closing(JsonLinesSource(path)) as source:
        source.set_expected_content(bookmark)
        source.seek(position)
        with pytest.raises(DeletedError, match="replaced"):
            source.poll(1)


def test_a_position_of_an_earlier_release_which_has_no_bookmark_is_read_on(path):
    with closing(JsonLinesSource(path)) as source:
        source.seek({"0": sum(len(line) + 1 for line in OLD[:50])})
        assert [m.payload for m in source.poll(99)] == OLD[50:]


def test_a_bookmark_that_cannot_be_read_is_refused(path):
    with pytest.raises(ConnectorError, match="use the release that wrote"):
        JsonLinesSource(path).set_expected_content("nonsense")


def test_a_parquet_file_that_another_replaced_is_noticed(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    table, path = pytest.importorskip("pyarrow").table, tmp_path / "records.parquet"
    parquet.write_table(table({"id": range(100)}), path, row_group_size=30)
    with closing(file_source(path)) as source:
        source.poll(40)
        bookmark, position = source.content_fingerprint, source.position()
    for start, is_same in ((0, True), (500, False)):
        parquet.write_table(table({"id": range(start, start + 300)}), path)
        with closing(file_source(path)) as source:
            source.set_expected_content(bookmark)
            source.seek(position)
            if is_same:
                assert json.loads(source.poll(1)[0].payload) == {"id": "40"}
                continue
            with pytest.raises(DeletedError, match="not the file that was read before"):
                source.poll(1)


class TestTables:
    @pytest.fixture
    def path(self, tmp_path):
        path = tmp_path / "records.csv"
        path.write_bytes(b"id,a,b\n1,2,3\n4,5,6\n")
        return path

    def read(self, source):
        return [json.loads(message.payload) for message in source.poll(9)]

    @pytest.mark.parametrize("n_read", [0, 1])
    def test_columns_that_swapped_names_in_place_are_noticed(self, path, reading, n_read):
        one = reading(on_data_loss="continue")
        one.poll(n_read)
        one.source.lag()
        path.write_bytes(b"id,b,a\n1,2,3\n4,5,6\n")
        assert self.read(one.source) == [
            {"id": "1", "b": "2", "a": "3"},
            {"id": "4", "b": "5", "a": "6"},
        ]
        assert bool(one.source.skipped_ranges) == bool(n_read)

    def test_a_header_completed_later_is_the_header(self, path):
        path.write_bytes(b"id,wid")
        with closing(CsvSource(path)) as source:
            assert source.poll(9) == []
            with path.open("ab") as file:
                file.write(b"th\n7,8\n")
            assert self.read(source) == [{"id": "7", "width": "8"}]

    def test_each_file_has_its_own_header(self, path):
        with closing(CsvSource(path)) as source:
            self.read(source)
            path.rename(path.with_name("records.csv.1"))
            path.write_bytes(b"b,c,id,a\n1,2,3,4\n")
            assert self.read(source) == [{"b": "1", "c": "2", "id": "3", "a": "4"}]

    def test_a_row_that_was_finished_after_it_was_read_is_given_whole(self, path):
        path.write_bytes(b"id,a\n1,2")
        with closing(CsvSource(path)) as source:
            assert self.read(source) == [{"id": "1", "a": "2"}]
            with path.open("ab") as file:
                file.write(b".5\n3,4\n")
            assert self.read(source) == [{"id": "1", "a": "2.5"}, {"id": "3", "a": "4"}]


def header_only(tmp_path, **options):
    """Return the path of a CSV file with its header alone, and a source that polled it."""
    path = tmp_path / "records.csv"
    path.write_text("id\n")
    os.utime(path, (1, 1))
    source = file_source(path, **options)
    assert source.poll(9) == []
    return path, source


def test_first_records_are_read_of_a_file_that_is_renamed_before_the_next_is_there(tmp_path):
    path, source = header_only(tmp_path, follow=True)
    with closing(source):
        write(path, [b"1", b"2"], "ab")
        path.rename(tmp_path / "records.csv.1")
        assert [message.payload for message in source.poll(9)] == [b'{"id":"1"}', b'{"id":"2"}']


def test_a_file_that_was_read_is_no_copy_although_it_was_written_late(tmp_path):
    path = tmp_path / "records.csv"
    write(path, [b"id", b"1", b"2"])
    with closing(file_source(path, follow=True)) as source:
        assert len(source.poll(9)) == 2
        path.rename(tmp_path / "records.csv.1")
        path.write_text("id\n")
        os.utime(path, (1, 1))
        assert source.poll(9) == []
        os.utime(tmp_path / "records.csv.1")
        write(path, [b"3"], "ab")
        assert [message.payload for message in source.poll(9)] == [b'{"id":"3"}']


def test_a_copy_that_is_compressed_ends_the_run_or_is_counted(tmp_path):
    for on_data_loss in ("fail", "continue"):
        folder = tmp_path / on_data_loss
        folder.mkdir()
        path, source = header_only(folder, on_data_loss=on_data_loss)
        with closing(source):
            (folder / "records.csv.1.gz").write_bytes(gzip.compress(b"id\n1\n"))
            write(path, [b"id", b"2"])
            if on_data_loss == "fail":
                with pytest.raises(DeletedError, match=r"records\.csv\.1\.gz .* is compressed"):
                    source.poll(9)
            else:
                assert [message.payload for message in source.poll(9)] == [b'{"id":"2"}']
                assert source.skipped_ranges == {"0": (0, 1)}


def test_targets_that_were_skipped_are_found_also_where_the_newest_one_is_gone(tmp_path):
    path, newest = tmp_path / "records.jsonl", tmp_path / "part-03.jsonl"
    for n in (1, 2):
        write(tmp_path / f"part-0{n}.jsonl", OLD)
        os.utime(tmp_path / f"part-0{n}.jsonl", (n, n))
    path.symlink_to(newest)
    assert find_unread_link_targets(path, since_ns=10**9) == [path.with_name("part-02.jsonl")]
    write(newest, NEW)
    assert find_unread_link_targets(path, since_ns=10**9) == [path.with_name("part-02.jsonl")]
    assert find_unread_link_targets(newest, since_ns=10**9) == [], "it is no link"


def read_all(source):
    return [json.loads(message.payload)["id"] for message in source.poll(1_000)]


@pytest.fixture
def stopped(path):
    """A reader of `path` that is another one after each poll."""
    reader = Restarting(path, stopped=True)
    yield reader
    reader.close()


@pytest.mark.parametrize("lines", [[], [b"id"]])
def test_a_copy_of_lines_that_came_between_two_empty_polls_is_read(tmp_path, lines):
    """Seen empty, written, copied and truncated, seen empty once more, and written again."""
    path = tmp_path / ("records.csv" if lines else "records.jsonl")
    told = [b"1", b"2"] if lines else [b'{"id": "1"}', b'{"id": "2"}']
    write(path, lines)
    os.utime(path, (1, 1))
    with closing(file_source(path, follow=True)) as source:
        assert source.poll(9) == []
        write(path, told[:1], "ab")
        shutil.copy(path, f"{path}.1")
        write(path, lines)
        found = read_all(source)
        write(path, told[1:], "ab")
        assert found + read_all(source) == ["1", "2"]


def test_a_copy_beside_the_target_of_a_link_is_read(tmp_path):
    (tmp_path / "logs").mkdir()
    target, path = tmp_path / "logs" / "today.jsonl", tmp_path / "records.jsonl"
    target.touch()
    os.utime(target, (1, 1))
    path.symlink_to(target)
    with closing(file_source(path, follow=True)) as source:
        assert source.poll(9) == []
        write(target, OLD)
        shutil.copy(target, f"{target}.1")
        write(target, NEW)
        assert len(read_all(source) + read_all(source)) == len(OLD) + len(NEW)


def test_a_copy_beside_the_target_of_a_link_is_read_while_stopped(tmp_path):
    (tmp_path / "logs").mkdir()
    target, path = tmp_path / "logs" / "today.jsonl", tmp_path / "records.jsonl"
    write(target, OLD)
    path.symlink_to(target)
    reader = Restarting(path, stopped=True)
    with closing(reader):
        found = reader.poll(40)
        shutil.copy(target, f"{target}.1")
        write(target, NEW)
        assert found + reader.rest() == OLD + NEW


@pytest.mark.parametrize(
    "name",
    [
        *("records.jsonl.2", "records_20260102.jsonl", "records-2026-01-01T00:00:00Z.jsonl"),
        *("2026-01-01-records.jsonl", "records.jsonl.mon", "records.old", "records.jsonl.bak"),
    ],
)
def test_a_file_that_came_between_is_known_by_its_name(path, stopped, name):
    assert len(stopped.poll(1_000)) == len(OLD)
    path.rename(path.with_name("records.jsonl.1"))
    os.utime(path.with_name("records.jsonl.1"), (1, 1))
    write(path, NEW)
    path.rename(path.with_name(name))
    write(path, NEW[:1])
    with pytest.raises(DeletedError, match="came between the file that was read"):
        stopped.poll(1_000)


def test_a_copy_by_name_is_preferred_to_a_longer_file_that_begins_alike(path, stopped):
    full = path.with_name("records-full.jsonl")
    write(full, [*OLD, *NEW])
    assert len(stopped.poll(1_000)) == len(OLD)
    write(path, [b'{"id": "late"}'], "ab")
    copy_and_truncate(path)
    os.utime(full, (1, 1))
    assert stopped.poll(1_000) + stopped.poll(1_000) == [b'{"id": "late"}', *NEW]


def test_a_last_row_with_a_line_break_in_quotes_is_read_again_as_a_whole(tmp_path):
    path = tmp_path / "records.csv"
    path.write_bytes(b'id,note,n\n1,a,1\n5,"see\n9,fake",1')
    with closing(CsvSource(path)) as source:
        assert read_all(source) == ["1", "5"]
        position, content = source.position(), source.content_fingerprint
    with path.open("ab") as file:
        file.write(b"2\n6,ok,3\n")
    with closing(CsvSource(path)) as source:
        source.set_expected_content(content)
        source.seek(position)
        rows = [json.loads(message.payload) for message in source.poll(9)]
    assert rows == [
        {"id": "5", "note": "see\n9,fake", "n": "12"},
        {"id": "6", "note": "ok", "n": "3"},
    ]


def test_target_of_a_link_named_like_its_rotated_files_is_read_next(path, reading):
    targets = [path.with_name(f"records-{n}.jsonl") for n in (1, 2, 3)]
    for seconds, (target, lines) in enumerate(zip(targets, (OLD, NEW, NEW), strict=True)):
        write(target, lines)
        os.utime(target, (1_000_000 + seconds, 1_000_000 + seconds))

    def point_to(target):
        path.unlink()
        path.symlink_to(target)

    targets[2].rename(path.with_name("later"))
    point_to(targets[0])
    one = reading()
    assert one.rest() == OLD
    point_to(targets[1])
    assert one.rest() == NEW
    path.with_name("later").rename(targets[2])
    write(path.with_name("records-4.jsonl"), OLD)
    point_to(path.with_name("records-4.jsonl"))
    with pytest.raises(DeletedError, match=r"but records-3\.jsonl in its folder came between"):
        one.poll(9)


def rotate_by_name(path, n):
    path.rename(path.with_name(f"records.jsonl.{n}"))


def point_to_the_next_target(path, n):
    """Move the target aside, and point the path to a file that does not exist yet."""
    if not path.is_symlink():
        path.rename(path.with_name("part-0.jsonl"))
    else:
        path.unlink()
    path.symlink_to(path.with_name(f"part-{n}.jsonl"))


@pytest.mark.parametrize("rotate", [rotate_by_name, point_to_the_next_target])
def test_file_written_between_two_rotations_with_the_clock_set_back_is_named(path, reading, rotate):
    times = iter((2_000_000, 3_000_000, 1_000_000, 3_000_001))
    os.utime(path, (next(times),) * 2)
    rotate(path, 1)  # an older file that is there from the start is no loss
    one = reading(follow=True)
    for n, lines in enumerate(([b'{"id": "first"}'], OLD[:1], NEW[:1]), start=2):
        write(path, lines)
        os.utime(path, (next(times),) * 2)
        if n == 2:
            assert one.rest() == lines
        if n < 4:
            rotate(path, n)
    with pytest.raises(DeletedError, match=r"(jsonl\.3|part-2\.jsonl) in its folder came between"):
        one.rest()


def test_late_write_to_a_file_that_was_read_is_no_loss(path, reading):
    """A process writes to the renamed file until it opens the next file."""
    one = reading(follow=True)
    for n, lines in enumerate((OLD, NEW, OLD[:1])):
        if n:
            path.rename(path.with_name(f"records.jsonl.{n}"))
            write(path, lines)
        os.utime(path, (1_000_000 + 10 * n, 1_000_000 + 10 * n))
        assert one.rest() == lines
        if n:
            write(path.with_name(f"records.jsonl.{n}"), [b"{}"], "ab")
            os.utime(path.with_name(f"records.jsonl.{n}"), (1_000_001 + 10 * n,) * 2)
            os.utime(path, (1_000_002 + 10 * n,) * 2)
