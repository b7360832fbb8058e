"""Messages about a pipeline's events, for the webhook of [notify]."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from streamboost.escaping import escape_line

Event = dict[str, Any]
"""An event: its `type`, one of [notify] events, and its fields."""


def encode_events(name: str, sequence: int, events: Sequence[Event]) -> bytes:
    """Return a message about the pipeline `name` after batch `sequence`, as JSON in UTF-8."""
    lines = "\n".join(_event_text(event) for event in events)
    message = {
        "text": _escape_for_slack(f"{name}: {lines}"),
        "pipeline": name,
        "sequence": sequence,
        "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "events": events,
    }
    return msgspec.json.encode(message)


def _event_text(event: Event) -> str:
    """Return one line about an event.

    Examples
    --------
    >>> _event_text({"type": "requests", "requested": 1, "open": 7})
    '1 label requested, 7 requests open'
    >>> _event_text({"type": "regression", "class": "fraud", "recall": 0.6, "before": 0.9})
    'recall of fraud is 60 %, and was 90 % since the start'
    """
    match event["type"]:
        case "requests":
            n, n_open = event["requested"], event["open"]
            return (
                f"{n:,} label{'s' * (n != 1)} requested, "
                f"{n_open:,} request{'s' * (n_open != 1)} open"
            )
        case "regression" if "class" in event:
            return escape_line(
                f"recall of {event['class']} is {100 * event['recall']:.0f} %, and was "
                f"{100 * event['before']:.0f} % since the start"
            )
        case "regression":
            return f"accuracy fell by {100 * event['accuracy_drop']:.1f} points"
        case "drift" if "since_label" in event:
            return f"the stream changed before label {event['since_label']:,}"
        case "drift":
            return f"drift was detected at label {event['label']:,}"
        case "budget":
            return "the label budget is used up"
        case "up":
            return "the pipeline is up again"
        case _:
            return escape_line(f"the pipeline is down: {event['error']}")


def _escape_for_slack(text: str) -> str:
    """Escape the control characters of Slack's messages: names of classes come from records."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
