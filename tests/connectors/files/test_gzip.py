"""JSON Lines and CSV in gzip: positions are offsets in the decompressed text."""

import gzip
from contextlib import closing

import pytest

from streamboost.connectors.files.csv import CsvSource
from streamboost.connectors.files.json_lines import JsonLinesSource
from streamboost.connectors.files.open import file_source
from streamboost.errors import ConfigurationError, ConnectorError, DeletedError

LINES = [b'{"id": %d, "note": "%s"}' % (n, b"abc" * (n % 50)) for n in range(5_000)]
TEXT = b"".join(line + b"\n" for line in LINES)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "records.jsonl.gz"
    path.write_bytes(gzip.compress(TEXT))
    return path


def test_a_compressed_file_gives_what_its_text_gives(path, tmp_path):
    plain = tmp_path / "records.jsonl"
    plain.write_bytes(TEXT)
    with closing(file_source(plain)) as whole, closing(file_source(path)) as compressed:
        assert compressed.poll(10_000) == whole.poll(10_000)


def test_another_process_goes_on_at_an_offset_in_the_text(path):
    source = JsonLinesSource(path)
    source.poll(3_210)
    fresh = JsonLinesSource(path)
    fresh.seek(source.position())
    assert fresh.position() == {"0": sum(len(line) + 1 for line in LINES[:3_210])}
    assert [message.payload for message in fresh.poll(10_000)] == LINES[3_210:]


def test_a_part_is_read_again(path):
    source = JsonLinesSource(path)
    first = source.poll(2_000)
    end = source.position()["0"]
    again = source.read_range({"0": (first[700].offset, first[900].offset)}, 200)
    assert again == first[700:900]
    source.seek({"0": end})
    assert source.poll(1)[0].payload == LINES[2_000]


def test_a_compressed_table_is_read_by_its_header(tmp_path):
    path = tmp_path / "records.csv.gz"
    path.write_bytes(gzip.compress(b"id,a\n007,1.5\n008,\n"))
    source = file_source(path)
    assert isinstance(source, CsvSource)
    assert [m.payload for m in source.poll(9)] == [
        b'{"id":"007","a":"1.5"}',
        b'{"id":"008","a":null}',
    ]


def test_several_files_one_after_the_other_are_one_text(path):
    path.write_bytes(gzip.compress(TEXT) + gzip.compress(b'{"id": "last"}\n'))
    assert JsonLinesSource(path).poll(10_000)[-1].payload == b'{"id": "last"}'


def test_a_text_that_is_shorter_than_it_was_is_another(path):
    source = JsonLinesSource(path)
    source.seek({"0": len(TEXT) + 1})
    with pytest.raises(DeletedError, match=f"text has only {len(TEXT)} bytes"):
        source.poll(1)


@pytest.mark.parametrize(
    "damaged",
    [TEXT, gzip.compress(TEXT)[:-200], gzip.compress(TEXT)[:500] + b"\xff" * 500],
    ids=["not compressed", "cut short", "damaged"],
)
def test_what_cannot_be_unpacked_is_an_error_that_names_the_file(path, damaged):
    path.write_bytes(damaged)
    source = JsonLinesSource(path)
    for _ in range(2):
        with pytest.raises(ConnectorError, match=r"cannot read .*records\.jsonl\.gz: "):
            source.poll(100_000)


def test_nobody_waits_for_more_of_a_compressed_file(path):
    with pytest.raises(ConfigurationError, match="leave `follow` out"):
        JsonLinesSource(path, follow=True)


def test_a_compressed_parquet_file_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="compressed within: unpack it"):
        file_source(tmp_path / "records.parquet.gz")
