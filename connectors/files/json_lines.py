"""JSON Lines files, read: one message a line."""

import msgspec

from streamboost.connectors.files.lines import LineSource
from streamboost.connectors.files.rotation import is_compressed

__all__ = ["JsonLinesSource", "is_compressed"]


class JsonLinesSource(LineSource):
    r"""Reads a file line by line; the offset of a message is the byte at which its line starts.

    Lines end in `\n` or `\r\n`. A last line without an end is a message, unless `follow` is set.
    If such a line is no JSON, and is continued later, the whole line is given then. An empty line
    is an empty message. A byte order mark at the start is passed over.

    A file that ends in `.gz` is read through gzip. Offsets are those of the text in it, so going on
    from one reads the file up to there.

    A file that was rotated is read to its end, as long as it is open, or is found beside the path
    by its content: renamed, copied, or compressed with gzip. Files that were rotated away since
    come next, and then the one that is at the path now. Offsets count on from file to file.

    Parameters
    ----------
    path : path to a file
    max_bytes : int
        What of a line is held in memory: of a longer one, the first `max_bytes` + 1 bytes are
        given, with its true size.
    follow : bool
        Whether lines are still being added: then a last line waits for its end, and a file
        that is not there yet has nothing yet.
    on_gap : {"stop", "continue"}
        What to do where the file that was read is gone and may have held more: "continue" reads
        the file that is at the path now from its beginning, as `gaps` says.

    Raises
    ------
    ConnectorError
        While polling, when the file is missing, is no regular file, cannot be read, or is not the
        one that was read before.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "records.jsonl"
    >>> _ = path.write_bytes(b'{"id": 1}\n{"id": 2}\n')
    >>> source = JsonLinesSource(path)
    >>> source.poll(1)
    [Message(payload=b'{"id": 1}', partition='0', offset=0, size=9)]
    >>> source.position()
    {'0': 10}
    >>> source.close()
    """

    def _is_whole(self, line: bytes) -> bool:
        try:
            msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        return True
