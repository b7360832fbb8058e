"""How a pipeline stands: in numbers, and whole, as its snapshots hold it."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import msgspec

from streamboost.connectors.messages.schema import Schema
from streamboost.features import Features
from streamboost.pipelines.engine.classes import Classes
from streamboost.pipelines.state.journal import JournalExtras
from streamboost.storage import Arrays, part
from streamboost.stream.learner import StreamLearner

if TYPE_CHECKING:
    from streamboost.pipelines.engine.models.models import Models
    from streamboost.pipelines.engine.pipeline import Pipeline

__all__ = ["FieldCounts", "in_numbers", "pack", "restore"]

MOST_NAMES = 1_000
"""Names that are told apart: a record whose names never come again cannot fill the memory."""

OTHERS = "further names"


class FieldCounts:
    """How many records had a value in each field that the schema does not know.

    >>> counts = FieldCounts()
    >>> counts.add({"city": 3})
    >>> counts.unknown
    Counter({'city': 3})
    """

    def __init__(self, unknown: Mapping[str, int] | None = None) -> None:
        self.unknown: Counter[str] = Counter(unknown or {})

    def add(self, found: Mapping[str, int]) -> None:
        """Count what a batch showed."""
        for name, n in found.items():
            is_told = name in self.unknown or len(self.unknown) < MOST_NAMES
            self.unknown[name if is_told else OTHERS] += n

    def learn(self, names: Mapping[str, Any]) -> None:
        """Take it that these are known from now on."""
        for name in names:
            self.unknown.pop(name, None)

    def in_numbers(self, features: Features | None) -> dict[str, dict[str, int]]:
        """Return them, and how many values of each field of `features` could not be read."""
        unreadable = {} if features is None else features.unreadable
        return {
            "unknown": dict(self.unknown),
            "unreadable": {str(name): n for name, n in unreadable.items()},
        }


def pack(pipeline: "Pipeline") -> tuple[Arrays, dict[str, Any]]:
    """Return all that a pipeline's next step depends on: arrays, and a manifest."""
    arrays = {f"learner.{name}": a for name, a in pipeline.learner.snapshot().items()}
    arrays |= {f"join.{name}": a for name, a in pipeline.join.to_arrays().items()}
    about: dict[str, Any] = {}
    if pipeline.models is not None:
        state, tables = pipeline.models.state()
        about = {"models": state}
        arrays |= {f"models.{name}": a for name, a in tables.items()}
    manifest = pipeline.numbers() | {
        "digest": pipeline.digest,
        "tick": pipeline.tick,
        "journal_extras": msgspec.to_builtins(pipeline.journal_extras),
        "schema": pipeline.schema.to_json(),
        "classes": pipeline.classes.to_json(),
        "decision": pipeline.decision,
        "evaluation": pipeline.learner.evaluation.in_numbers(),
    }
    return arrays, manifest | about


def restore(pipeline: "Pipeline", arrays: Arrays, manifest: dict[str, Any]) -> None:
    """Have a pipeline become the one that was packed so."""
    pipeline.learner = StreamLearner.restore(part(arrays, "learner."))
    if pipeline.models is not None:
        pipeline.models.resume(manifest["models"], part(arrays, "models."))
    pipeline.join.restore(part(arrays, "join."))
    pipeline.sequence = manifest["sequence"]
    pipeline.digest = manifest["digest"]
    pipeline.tick = manifest["tick"]
    pipeline.dead_letters = manifest["dead_letters"]
    pipeline.bootstrapped = manifest["bootstrapped"]
    pipeline.lost_batches = manifest["lost_batches"]
    pipeline.deleted_unread = manifest["deleted_unread"]
    pipeline.fields = FieldCounts(manifest["fields"]["unknown"])
    pipeline.schema = Schema.from_json(manifest["schema"])
    pipeline.classes = Classes.restore(manifest["classes"])
    pipeline.decision = manifest["decision"]
    pipeline.journal_extras = msgspec.convert(manifest["journal_extras"], JournalExtras)


def in_numbers(pipeline: "Pipeline") -> dict[str, Any]:
    """Return a pipeline's counters, and those of committee, ledger and join."""
    learner = pipeline.learner
    return {
        "sequence": pipeline.sequence,
        "dead_letters": pipeline.dead_letters,
        "bootstrapped": pipeline.bootstrapped,
        "lost_batches": pipeline.lost_batches,
        "deleted_unread": pipeline.deleted_unread,
        "fields": pipeline.fields.in_numbers(learner.features),
        "committee": _of_committee(learner, pipeline.models),
        "experts": learner.voices,
        "annotators": learner.annotators.in_numbers(),
        "ledger": asdict(learner.ledger),
        "join": pipeline.join.in_numbers(),
    } | _of_models(pipeline)


def _of_models(pipeline: "Pipeline") -> dict[str, Any]:
    if pipeline.models is None:
        return {}
    serving = pipeline.models.serving
    failures = {} if serving is None else {"model": {"failures": serving.failures}}
    if pipeline.models.transformer is not None:
        failures["transformer"] = {"failures": pipeline.models.transformer.failures}
    return failures | {"rivals": pipeline.models.in_numbers()}


def _of_committee(learner: StreamLearner, models: "Models | None") -> dict[str, int]:
    """Return how the committee stands, and what is being trained."""
    trainer = learner.trainer
    numbers = {
        "labels": learner.n_labelled,
        "version": 0,
        "rounds": 0,
        "trees": 0,
        "classes": 0,
        "running": trainer.running.version if trainer.running else 0,
        "challenger": trainer.challenger.version if trainer.challenger else 0,
        # Where a model serves, nothing is trained, and nobody has asked for that.
        "paused": int(trainer.paused and (models is None or models.serving is None)),
    }
    if (committee := learner.committee) is not None:
        numbers |= {
            "version": committee.version,
            "rounds": committee.n_rounds,
            "trees": committee.n_trees,
            "classes": len(committee.classes),
        }
    return numbers
