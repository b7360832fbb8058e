"""Environment variables in a pipeline file: substitution of values, and masking in messages."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def variable_names(text: str) -> list[str]:
    """Return the names of the environment variables ``${NAME}`` in `text`.

    >>> variable_names("${DIR}/${DAY}.jsonl")
    ['DIR', 'DAY']
    """
    return _VARIABLE.findall(text)


class EnvironmentVariables:
    """Environment variables that a pipeline file in `folder` uses.

    >>> variables = EnvironmentVariables({"WHERE": "/srv/hunter2"}, Path("/etc"))
    >>> variables.substitute("${WHERE}/records.jsonl")
    '/srv/hunter2/records.jsonl'
    >>> variables.mask("there is no file /srv/hunter2/records.jsonl")
    'there is no file ${WHERE}/records.jsonl'
    """

    def __init__(self, environment: Mapping[str, str], folder: Path) -> None:
        self._environment = environment
        self._folder = folder
        self._used: dict[str, str] = {}

    @property
    def used_names(self) -> list[str]:
        """The sorted names of the variables that `substitute` has used."""
        return sorted(self._used)

    def substitute(self, text: str) -> str:
        """Replace ``${NAME}`` in `text` by the values; KeyError if a variable is not set."""
        for name in variable_names(text):
            self._used[name] = self._environment[name]
        return _VARIABLE.sub(lambda match: self._used[match[1]], text)

    def mask(self, text: str) -> str:
        """Replace the values of used variables in `text` by ``${NAME}``."""
        names: dict[str, str] = {}
        for name, value in self._used.items():
            for form in self._spellings_of_value(value):
                names.setdefault(form, f"${{{name}}}")
        if not names:
            return text
        # Longest first, as a value may contain another value.
        forms = sorted(names, key=len, reverse=True)
        return re.sub("|".join(map(re.escape, forms)), lambda match: names[match[0]], text)

    def _spellings_of_value(self, value: str) -> Iterator[str]:
        """Yield the texts by which a message may show `value`: plain, quoted, or as a full path."""

        if not value:
            return
        yield value
        yield repr(value)[1:-1]
        yield repr('"' + value)[2:-1]  # as within text that holds both kinds of quotes
        path = os.path.expanduser(value)
        yield str(Path(path))
        yield os.path.realpath(self._folder / path)
