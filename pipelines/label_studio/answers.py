"""Labels from the answers of annotators in Label Studio."""

from collections import Counter
from collections.abc import Sequence

from streamboost.connectors.label_studio.project import LabelStudioAnswer
from streamboost.connectors.messages.outgoing import Label
from streamboost.errors import ConfigurationError


def build_labels(
    id: str,
    answers: Sequence[LabelStudioAnswer],
    *,
    is_integer: bool,
    on_conflict: str,
    where: str,
) -> list[Label]:
    """Return a label of the record `id` for each of at least one answer.

    They are sorted so that the pipeline, by its rule `on_conflict`, uses the most frequent label.
    In a tie, the first label is used. If the labels are integers and a choice is none, a
    ConfigurationError with the project's address `where` is raised.
    """
    ((majority, _),) = Counter(one.label for one in answers).most_common(1)
    ordered = sorted(answers, key=lambda one: one.label == majority, reverse=on_conflict != "last")
    return [
        Label(
            id,
            to_integer_label(one.label, where) if is_integer else one.label,
            one.time,
            one.annotator,
        )
        for one in ordered
    ]


def to_integer_label(choice: str, where: str) -> int:
    """Convert a choice of the interface to an integer label.

    Raises ConfigurationError, with the project's address `where`, if `choice` is no integer.
    """
    try:
        return int(choice)
    except ValueError:
        raise ConfigurationError(
            f"{where}: the choice {choice!r} is not a whole number, as [schema] label = "
            '"integer" requires: correct the labelling interface'
        ) from None
