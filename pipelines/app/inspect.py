"""Description of a pipeline from its state folder and sources, for `streamboost inspect`."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from textwrap import wrap
from typing import Any

import msgspec

from streamboost.connectors.base import CommittedBatch
from streamboost.connectors.sqlite.transaction import SqliteTransaction
from streamboost.errors import ConnectorError, StateError, UnavailableError
from streamboost.escaping import escape_line
from streamboost.pipelines.app.connect import Connectors, create_connectors
from streamboost.pipelines.config.compatibility import (
    commits_to_kafka,
    pipeline_name,
    position_units,
)
from streamboost.pipelines.config.file import Config
from streamboost.pipelines.monitoring.last_error import read_last_error
from streamboost.pipelines.state.folder import State
from streamboost.pipelines.state.journal import JournalEntry
from streamboost.pipelines.status.forecast import forecast_lines
from streamboost.pipelines.status.formatting import (
    COUNTERS,
    RECORDED,
    RECORDS_APART,
    UNUSABLE,
    gain_text,
)
from streamboost.pipelines.status.version_comparison import comparison_lines


def describe_pipeline(path: Path, config: Config | None = None) -> dict[str, Any]:
    """Return the progress and settings of the pipeline with state folder `path`, as JSON values.

    Keys, among others:

    - `sequence`, `positions`: the newest committed batch; `units`: the units of the positions.
    - `distributed`: whether the records are entries of the scoring log, so that the learner counts
      only records with a request.
    - `lag`: unread bytes or messages, if `config` is given and the sources report a lag.
    - `checkpoint`: manifest of the newest checkpoint.
    - `last_error`: the newest error, of this run or an earlier one.
    - `unknown`: reasons of failed queries: "lag", and "committed" if a broker has the journal. Then
      `sequence` and `positions` are those of the checkpoint.
    """
    state = State(path)
    name = pipeline_name(state)
    if name is None and config is not None:
        raise StateError(f"{path}: pipeline {config.name} has not run yet: start `streamboost run`")
    if name is None:
        raise StateError(
            f"{path} is not the state folder of a pipeline: give the folder in [pipeline] state, "
            "or the pipeline file"
        )
    saved = state.checkpoints.newest()
    manifest = saved[1] if saved else None
    if config is not None:
        committed, lag, unknown = _query_committed_batch_and_lag(config, manifest)
    elif commits_to_kafka(state):
        raise StateError(
            f"{path} is the state of a pipeline whose journal is in Kafka: give the pipeline file"
        )
    else:
        lag, unknown = {}, {}
        with closing(SqliteTransaction(state.log, name)) as transaction:
            committed = transaction.last_committed_batch()
    trouble = read_last_error(state.last_error)
    return {
        "name": name,
        "running": state.is_running(),
        "distributed": config is not None and config.is_distributed,
        "sequence": committed.sequence if committed else 0,
        "positions": committed.positions if committed else {},
        "units": position_units(state),
        "lag": lag,
        "unknown": unknown,
        "last_error": None if trouble is None else msgspec.structs.asdict(trouble),
        "checkpoint": manifest,
    }


def _query_committed_batch_and_lag(
    config: Config, manifest: dict[str, Any] | None
) -> tuple[CommittedBatch | None, dict[str, int], dict[str, str]]:
    """Return the newest committed batch, the lag by source, and the reasons of failed queries.

    If the journal is unavailable, the batch is that of `manifest`, which describes the newest
    checkpoint. The reasons have the keys "committed" and "lag".
    """
    unknown: dict[str, str] = {}
    with closing(create_connectors(config)) as connectors:
        try:
            committed = connectors.transaction.last_committed_batch()
            bookmarks = _source_bookmarks(connectors, committed, manifest)
            return committed, _lag_by_source(connectors, committed, bookmarks, unknown), unknown
        except UnavailableError as error:
            unknown = dict.fromkeys(("committed", "lag"), str(error))
    known = CommittedBatch(manifest["sequence"], manifest["positions"]) if manifest else None
    return known, {}, unknown


def _source_bookmarks(
    connectors: Connectors, committed: CommittedBatch | None, manifest: dict[str, Any] | None
) -> dict[str, str]:
    """Return each source's `content_fingerprint` at the newest batch: checkpoint, then journal."""
    bookmarks: dict[str, str] = manifest["bookmarks"] if manifest else {}
    after = manifest["sequence"] if manifest else 0
    if committed is not None and committed.sequence > after and (bookmarks or not after):
        for _, message in connectors.transaction.read_journal(after):
            bookmarks = bookmarks | JournalEntry.decode(message).bookmarks
    return bookmarks


def _lag_by_source(
    connectors: Connectors,
    committed: CommittedBatch | None,
    bookmarks: dict[str, str],
    failure_reasons: dict[str, str],
) -> dict[str, int]:
    """Map each source to its number of unread messages or bytes after the committed position.

    If a query fails, its reason is stored in `failure_reasons`, and other sources are left out.
    """
    positions = committed.positions if committed else {}
    lag = {}
    for name, source in (("records", connectors.records), ("labels", connectors.labels)):
        if not source.is_replayable:
            continue
        try:
            if name in bookmarks:
                source.set_expected_content(bookmarks[name])
            source.seek(positions.get(name, {}))
            messages = source.lag()
        except ConnectorError as error:
            failure_reasons["lag"] = str(error)
            break  # the other source would probably time out too
        if messages is not None:
            lag[name] = messages
    return lag


_WORDS = {
    "committee": {
        "labels": "labels learned",
        "version": "version of the active committee",
        "rounds": "boosting rounds of the committee",
        "trees": "trees of the committee",
        "classes": "classes that the committee predicts",
        "running": "version in training",
        "challenger": "version that is evaluated before it may be deployed",
        "paused": "yes: no training, and the active committee stays",
        "until_training": "labels until the next training",
    },
    "ledger": {
        "requests": "label requests",
        "audits": "requests selected at random for evaluation",
        "again": "relabel requests for labels that look wrong",
        "answered": "requests whose label was learned",
        "expired": "requests that expired",
        "tokens": "requests that the budget allows now",
    },
    "join": COUNTERS,
}
_TITLES = {"committee": "learner", "ledger": "budget", "join": "records and labels"}

_FIELDS = (
    (
        "unknown",
        "fields that are not in the schema (add them to [schema.fields] to use them)",
        "records with this field",
    ),
    ("unreadable", "values of another type than their field's", "treated as missing"),
)
_OWN = "of the own model, which is compared only"
_NAMED = 20
"""Maximum number of fields that are listed by name; others are only counted."""

_FIGURES = (
    ("accuracy", ("committee", "accuracy")),
    ("at all times", ("anytime_accuracy",)),
    ("balanced", ("committee", "balanced_accuracy")),
    ("kappa", ("committee", "kappa")),
    ("log loss", ("log_loss",)),
    ("repeat last", ("repeat_last", "accuracy")),
    ("majority", ("majority", "accuracy")),
)
_MEANINGS = {
    "accuracy": "correct predictions on arrival",
    "at all times": "confidence sequence of the accuracy",
    "balanced": "mean of the classes' recall",
    "kappa": "Cohen's; 0 is chance",
    "log loss": "of the probabilities, in nats",
    "repeat last": "repeating the newest known label",
    "majority": "predicting the most frequent label",
}
NO_FIGURE = "too few answers"
_WIDTH = 21


def format_description(description: dict[str, Any]) -> str:
    """Format the result of `describe_pipeline` as escaped lines of text."""
    return "\n".join(map(escape_line, _description_lines(description)))


def _description_lines(description: dict[str, Any]) -> list[str]:
    running = "running" if description["running"] else "not running"
    sequence, unknown = description["sequence"], description["unknown"]
    checkpoint = description["checkpoint"]
    most = "at least " if "committed" in unknown else ""
    lines = [
        f"pipeline {description['name']}: {running}, "
        f"{most}{_format_count(sequence, 'batch')} committed"
    ]
    if "committed" in unknown:
        what = "newer batches, and the lag"
        lines.append(f"not known        {what}: {unknown['committed']}")
    elif unknown:
        lines.append(f"not known        the lag: {unknown['lag']}")
    elif not sequence and checkpoint is None:
        return [*lines, "nothing has been read yet"]
    for source, position in description["positions"].items():
        unit = description["units"].get(source, "records")
        # Offsets of commands are times, which do not show progress.
        if source == "commands" or (source == "initial_data" and not any(position.values())):
            continue
        for partition, offset in position.items():
            place = f", partition {partition}" if len(position) > 1 else ""
            what = "scoring log" if description["distributed"] and source == "records" else source
            lines.append(f"{what + place:<16} continues after {offset:,} {unit}")
        if source in description["lag"]:
            more = "more bytes" if unit == "bytes" else "more"
            lines.append(f"{'':<16} {description['lag'][source]:,} {more} to be read")
    if trouble := description["last_error"]:
        when = f"{trouble['time']}, after batch {trouble['sequence']}"
        lines.append(f"last error       {when}: {trouble['text']}")
    if checkpoint is None:
        return [*lines, "no checkpoint yet: a restart replays from the beginning"]
    behind = sequence - checkpoint["sequence"]
    ago = f", {_format_count(behind, 'batch')} ago (a restart replays from there)" if behind else ""
    lines.append(f"as of the checkpoint of batch {checkpoint['sequence']}{ago}:")
    lines += _label_and_record_count_lines(checkpoint, distributed=description["distributed"])
    lines += _expert_lines(checkpoint["experts"])
    lines += _change_lines(checkpoint["changes"])
    lines += annotator_lines(checkpoint["annotators"])
    lines += _recorded_prediction_lines(checkpoint.get("recorded", {}))
    lines += _shadow_model_lines(checkpoint.get("shadow_models", {}))
    lines += _field_problem_lines(checkpoint["fields"])
    lines += metric_lines(checkpoint["evaluation"])
    lines += _forecast_lines(checkpoint)
    lines += _version_lines(checkpoint["comparisons"])
    if versions := checkpoint["versions"]:
        lines.append(f"  versions kept    {' '.join(map(str, versions))}")
    if checkpoint["lost_batches"]:
        lines.append(
            f"  lost             {_format_count(checkpoint['lost_batches'], 'batch')} of labels"
        )
    if unread := checkpoint["deleted_unread"]:
        lines.append(
            f"  lost             {unread:,} messages that were deleted before they were read"
        )
    return lines


def _expert_lines(weights: Mapping[str, float]) -> Iterator[str]:
    if weights:
        yield "  experts"
    for name, weight in weights.items():
        yield f"    {name:<15} {weight:>10.1%}  weight in predictions"


def _change_lines(changes: Mapping[str, Any]) -> Iterator[str]:
    if newest := changes["newest"]:
        yield f"  changes          {changes['total']:<10,} detected in the stream"
        then, since = f"label {newest['labels']:,}", newest["since_labels"] + 1
        yield f"    newest          {then}: the stream changed before label {since:,}"


def _recorded_prediction_lines(counts: Mapping[str, int]) -> Iterator[str]:
    if counts:
        yield "  predictions in the records"
    for name, n in counts.items():
        if n or name == "valid":
            yield f"    {name.replace('_', ' '):<15} {n:>10,}  {RECORDED[name]}"


def _forecast_lines(checkpoint: Mapping[str, Any]) -> Iterator[str]:
    evaluation, is_recorded = checkpoint["evaluation"], "recorded" in checkpoint
    if evaluation["recent"]["records"]:
        yield "  forecast over labels, with 90 % intervals"
        for line in forecast_lines(checkpoint["forecast"], evaluation, is_recorded=is_recorded):
            yield f"    {line}"


def _version_lines(comparisons: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if comparisons:
        yield "  versions on the same records, with 95 % confidence sequences"
        for line in comparison_lines(comparisons):
            yield from wrap(line, 100, initial_indent=" " * 4, subsequent_indent=" " * 6)


def _shadow_model_lines(reports: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    if reports:
        yield "  shadow models, share of correct predictions on arrival"
        yield _format_table_row("", "since the start", "newest")
    for name, one in reports.items():
        parts = [one["since_start"], one["recent"]]
        accuracy = [(part["committee"] or {}).get("accuracy") for part in parts]
        yield _format_table_row(name, *map(_format_estimate, accuracy))
        if "gain" in parts[0]:
            yield _format_table_row("  compared", *(gain_text(part["gain"]) for part in parts))


def annotator_lines(counts: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Yield a line for each annotator with label counts and agreement, most labels first."""
    names = sorted(counts, key=lambda name: -counts[name]["labels"])
    if names:
        yield "  annotators"
        yield _format_table_row(
            "", "labels", "agree with others", "agree with confident predictions"
        )
    for name in names[:_NAMED]:
        one = counts[name]
        alike = f"{one['agreed']:,} of {one['shared']:,}" if one["shared"] else "none shared"
        sure = f"{one['confirmed']:,} of {one['judged']:,}" if one["judged"] else "none"
        yield _format_table_row(name, f"{one['labels']:,}", alike, sure)
    if len(names) > _NAMED:
        yield f"    and {len(names) - _NAMED:,} more"


def _field_problem_lines(counts: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    for key, title, text in _FIELDS:
        names = sorted(counts.get(key, {}).items(), key=lambda one: -one[1])
        if names:
            yield f"  {title}"
        for name, n in names[:_NAMED]:
            yield f"    {name:<15} {n:>10,}  {text}"
        if len(names) > _NAMED:
            yield f"    and {len(names) - _NAMED:,} more"


def _label_and_record_count_lines(
    checkpoint: Mapping[str, Any], *, distributed: bool
) -> Iterator[str]:
    for part, words in _WORDS.items():
        rows = [(key, checkpoint[part].get(key, 0), text) for key, text in words.items()]
        if part == "committee" and "recorded" in checkpoint:
            rows = [(key, n, _OWN if key == "version" else text) for key, n, text in rows]
        if part == "ledger":
            text = "labels of the initial data (learned without requests)"
            rows.append(("initial_labels", checkpoint["initial_labels"], text))
        if part == "join":
            if distributed:
                rows[0] = (*rows[0][:2], RECORDS_APART)
            rows.append(("dead_letters", checkpoint["dead_letters"], UNUSABLE))
        rows = [row for row in rows if row[1]]
        if rows:
            yield f"  {_TITLES[part]}"
        for key, value, text in rows:
            yield f"    {key.replace('_', ' '):<15} {value:>10,.10g}  {text}"


def _format_count(n: int, noun: str) -> str:
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}es"


def metric_lines(evaluation: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines of metrics: overall, for each class, and for each bin of predicted probability.

    `evaluation` is the result of `Evaluation.to_json`. Yields nothing before the first record.
    """
    whole, recent = evaluation["since_start"], evaluation["recent"]
    if not whole["records"]:
        return
    yield "  predictions, with 95 % intervals"
    yield _format_table_row("", "since the start", "newest")
    yield _format_table_row(
        "records", f"{whole['records']:,}", f"{recent['records']:,}", "evaluated"
    )
    yield _format_table_row(
        "labels",
        f"{whole['answered']:,}",
        f"{recent['answered']:,}",
        "requested labels of the metrics",
    )
    if still := whole.get("waiting"):
        yield _format_table_row(
            "still open",
            f"{still:,}",
            f"{recent['waiting']:,}",
            "requests imputed from answered ones",
        )
    for name, path in _FIGURES:
        yield _format_table_row(
            name,
            *(_format_estimate(_nested_value(one, path)) for one in (whole, recent)),
            _MEANINGS[name],
        )
    if whole.get("cost") is not None:
        shown = [_format_estimate(one["cost"]) for one in (whole, recent)]
        yield _format_table_row("cost", *shown, "mean cost of a decision")
    if whole["left_out"]:
        shown = [_format_estimate(one["accuracy_with_left_out"]) for one in (whole, recent)]
        yield _format_table_row("with all labels", *shown, "accuracy with all annotators")
        yield f"    left out        {', '.join(whole['left_out'])}: they disagree too often"
    if (drop := evaluation.get("drop")) and drop["low"] > 0.0:
        yield f"    dropped         by {100 * drop['value']:.1f} points in the newest records"
    naive = [_nested_value(one, ("committee", "naive_accuracy")) for one in (whole, recent)]
    told = [f"{one['value']:.3f}" if one else NO_FIGURE for one in naive]
    yield _format_table_row("naive accuracy", *told, "on requested labels: a biased sample")
    if whole["committee"]["accuracy"] is None:
        return
    yield "  metrics by class, since the start"
    yield _format_table_row("", "share", "recall", "precision")
    for one in whole["classes"]:
        found = (_format_estimate(one[figure]) for figure in ("share", "recall", "precision"))
        yield _format_table_row(str(one["label"]), *found)
    yield "  predictions by their probability, since the start"
    yield _format_table_row("", "mean probability", "share correct", "records")
    for one in whole["reliability"]:
        if one["records"]:
            name = f"{one['low']:.0%} to {one['high']:.0%}"
            share = _format_estimate(one["accuracy"])
            yield _format_table_row(name, f"{one['confidence']:.3f}", share, f"{one['records']:,}")


def _nested_value(report: Mapping[str, Any], path: Sequence[str]) -> Any:
    found: Any = report
    for key in path:
        found = found[key]
    return found


def _format_estimate(estimate: Mapping[str, float] | None) -> str:
    if estimate is None:
        return NO_FIGURE
    return f"{estimate['value']:.3f} ({estimate['low']:.3f}-{estimate['high']:.3f})"


def _format_table_row(name: str, *cells: str) -> str:
    first, second, *rest = cells
    return f"    {name:<15} {first:<{_WIDTH}} {second:<{_WIDTH}} {''.join(rest)}".rstrip()
