"""The committee that a pipeline begins with, kept in its state: a replay begins with it, too."""

import hashlib
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streamboost.connectors.files.rotation import open_regular
from streamboost.errors import ConfigurationError, ConnectorError, ModelFileError
from streamboost.pipelines.config.file import Config
from streamboost.pipelines.state.folder import State
from streamboost.storage import unseal, write_bytes

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

__all__ = ["Beginning", "begun_with", "keep_beginning"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Beginning:
    """A committee trained beforehand, and the SHA-256 of its file."""

    committee: "Committee"
    digest: str


def begun_with(config: Config, state: State) -> Beginning | None:
    """Return what the pipeline began with, or is to begin with; None: with nothing.

    Raises ConfigurationError where that cannot be read.
    """
    blob = _blob(config, state)
    if blob is None:
        return None
    from streamboost.boosting.committee import Committee  # which loads the kernels

    where = f"[bootstrap] committee = {config.sections.bootstrap.committee!r}"
    try:
        arrays, _ = unseal(where, blob, kind="committee")
        committee = Committee.from_arrays(arrays)
    except ModelFileError as error:
        raise ConfigurationError(
            f"{where} is no committee that `committee_.save` wrote: {error}"
        ) from error
    return Beginning(committee, hashlib.sha256(blob).hexdigest())


def keep_beginning(config: Config, state: State, *, begun: bool) -> None:
    """Keep in `state` what a pipeline is to begin with; what it has `begun` with stays."""
    named = config.sections.bootstrap.committee
    if named is None:
        return
    if not (begun and state.committee.exists()):
        blob = _file(config, named)
        with state.told():
            write_bytes(state.committee, blob)
        return
    file = config.resolve(named)
    if file.is_file() and file.read_bytes() != state.committee.read_bytes():
        _log.warning("%s is another committee now than what the pipeline began with", file)


def _blob(config: Config, state: State) -> bytes | None:
    named = config.sections.bootstrap.committee
    if named is None:
        return None
    with state.told():
        if state.committee.exists():
            return state.committee.read_bytes()
    return _file(config, named)


def _file(config: Config, named: str) -> bytes:
    try:
        with open_regular(config.resolve(named)) as file:
            return file.read()
    except (OSError, ConnectorError) as error:
        raise ConfigurationError(
            f"[bootstrap] committee = {named!r} cannot be read: {error}; paths are seen from the "
            "folder of the pipeline file"
        ) from error
