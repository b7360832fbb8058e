"""JSON Lines source: one message per line."""

from streamboost.connectors.files.lines import LineSource
from streamboost.connectors.files.rotation import is_compressed

__all__ = ["JsonLinesSource", "is_compressed"]


class JsonLinesSource(LineSource):
    r"""Reads a file line by line; the offset of a message is the byte at which its line starts.

    Lines end in `\n` or `\r\n`. A last line without a line break is a message, unless `follow` is
    set. If this line is continued later, the whole line is returned again. An empty line is an
    empty message. A byte order mark at the start is skipped.

    A file that ends in `.gz` is read through gzip. Offsets count bytes of the uncompressed text, so
    that seeking an offset reads the file up to this offset.

    A file is identified by its device, its inode and its content. If the file at the path is
    rotated, the old file is read to its end: through the open handle, or where the file or a copy
    is found in the same folder. Then the file that is at the path now is read. Offsets continue
    from file to file.

    Parameters
    ----------
    path : path to a file
    max_bytes : int
        Limit per line in memory. A longer line is truncated to `max_bytes` + 1 bytes; the `size` of
        its message is the full length.
    follow : bool
        Whether lines are still being appended. If so, the source waits for the end of the last
        line, and for a file that is missing, or was renamed and is not replaced yet.
    on_data_loss : {"fail", "continue"}
        Reaction if the old file is not found after a rotation, or if there were further files
        between the old file and the new one. "continue" reads the file that is at the path now from
        its beginning, and reports a gap.

    Raises
    ------
    ConnectorError
        While polling, when the file is missing, is no regular file, cannot be read, or is not the
        file that was read before (DeletedError).

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
