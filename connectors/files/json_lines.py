"""JSON Lines files, read: one message a line."""

from streamboost.connectors.files.lines import LineSource
from streamboost.connectors.files.rotation import is_compressed

__all__ = ["JsonLinesSource", "is_compressed"]


class JsonLinesSource(LineSource):
    r"""Reads a file line by line; the offset of a message is the byte at which its line starts.

    Lines end in `\n` or `\r\n`. A last line without an end is a message, unless `follow` is set. If
    this line is continued later, the whole line is a message then. An empty line is an empty
    message. A byte order mark at the start is passed over.

    A file that ends in `.gz` is read through gzip. Offsets are those of the text in it, so going on
    from one reads the file up to there.

    A file is known by its device, its inode and its content. If the file at the path is rotated,
    the old file is read to its end: through the open handle, or where the file or a copy is found
    in the same folder. Then the file that is at the path now is read. Offsets count on from file to
    file.

    Parameters
    ----------
    path : path to a file
    max_bytes : int
        What of a line is held in memory: of a longer one, the first `max_bytes` + 1 bytes are
        given, with its true size.
    follow : bool
        Whether lines are still being added: then a last line waits for its end, and so does a
        file that is missing, or not there again after it was renamed.
    on_gap : {"stop", "continue"}
        What to do if the old file is not found after a rotation, or other files came between the
        old file and the new one. "continue" reads the file that is at the path now from its
        beginning, and reports a gap.

    Raises
    ------
    ConnectorError
        While polling, when the file is missing, is no regular file, cannot be read, or is not the
        one that was read before (DeletedError).

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
