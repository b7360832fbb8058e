"""Dry run of a configuration: connects to all endpoints and reads a few messages."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import astuple
from functools import cache, partial
from typing import NamedTuple

from streamboost.connectors.base import Message, Source, Transaction
from streamboost.connectors.messages.inference import (
    absent_fields_error,
    quoted_excerpt,
    time_field_error,
)
from streamboost.connectors.messages.outgoing import DeadLetter
from streamboost.connectors.messages.schema import Schema
from streamboost.errors import DataError, GapError, StreamBoostError
from streamboost.pipelines.app.connect import (
    create_connectors,
    create_transaction,
    describe_retention_of_topics,
    describe_topics,
)
from streamboost.pipelines.app.distributed import open_records_source, scorer_limits_text
from streamboost.pipelines.app.encoders import (
    describe_encoders,
    encoder_digests,
    encoder_fields,
)
from streamboost.pipelines.app.factories import (
    check_models,
    infer_if_unknown,
    river_factories_by_section,
    transform_messages,
)
from streamboost.pipelines.app.first_records import peek_messages
from streamboost.pipelines.app.recovery import (
    copy_store_for_rebuild,
    create_copy_store,
    load_initial_model,
    refuse_lost_state,
)
from streamboost.pipelines.app.run import has_run_before
from streamboost.pipelines.config.compatibility import verify_compatibility
from streamboost.pipelines.config.connectors.base import Output, check_writable
from streamboost.pipelines.config.connectors.kafka import KafkaTopic
from streamboost.pipelines.config.connectors.registry import (
    ENDPOINTS,
    OUTPUTS,
    refuse_unwritable_input,
)
from streamboost.pipelines.config.field_changes import added_fields
from streamboost.pipelines.config.file import Config
from streamboost.pipelines.config.sections import NotifySection
from streamboost.pipelines.label_studio import run as label_studio
from streamboost.pipelines.label_studio.tasks import FILE, TaskStore
from streamboost.pipelines.models.recorded import RecordedPredictions
from streamboost.pipelines.models.transformer import decode_raw_record
from streamboost.pipelines.monitoring.webhook import url_origin
from streamboost.pipelines.runner.initial_data import decode_initial_data, deploy_initial_committee
from streamboost.pipelines.runner.replay import (
    find_missing_batches,
    find_other_release_batches,
    journal_entries,
    require_same_encoders,
    require_same_release,
)
from streamboost.pipelines.state.copies import FolderTarget
from streamboost.pipelines.state.folder import State

_GetSchema = Callable[[], Schema]

_DISTRIBUTED = (
    "exactly once: each scorer commits the predictions, requests, scoring log and offsets of its "
    "partitions as one Kafka transaction, and the learner commits its batches likewise. The budget "
    "holds at every record of every partition. Not guaranteed: an order across partitions, the "
    "committee version that predicts a record, and unique ids across partitions"
)

_READ_ONCE = "standard input, which is read once: not tried"


class CheckResult(NamedTuple):
    """Result of the check of one part of a configuration: its name, success, and a text."""

    part: str
    ok: bool
    text: str


def check_pipeline(config: Config) -> Iterator[CheckResult]:
    """Check every connector of `config`; yield a `CheckResult` for each part of the configuration.

    The check reads a few messages, and writes none. If checkpoints are copied to a remote address,
    an empty file is written there and removed, to test write access.
    """
    state = State(config.state)
    # The schema is read from a checkpoint, which may be large.
    stored_schema = cache(partial(_load_schema_of_next_run, config, state))
    messages: list[Message] = []
    schema = cache(lambda: infer_if_unknown(config, stored_schema(), messages))
    if config.sections.kafka is not None:
        found = _check_part(config, "kafka", partial(describe_topics, config))
        yield found
        if not found.ok:  # other checks would fail for the same reason, each after a timeout
            return
    with closing(create_connectors(config)) as connectors:

        def read_records() -> str:
            if not connectors.records.is_replayable:
                return _READ_ONCE
            with open_records_source(config, connectors.records) as records:
                messages.extend(peek_messages(records))
            return _message_count_text(len(messages))

        if config.sections.schema_registry is not None:
            yield _check_part(
                config, "schema_registry", partial(_describe_registered_schemas, config)
            )
        yield _check_part(
            config,
            "state",
            partial(_describe_start_of_next_run, config, state, connectors.transaction),
        )
        yield _check_part(config, "source", read_records)
        yield _check_part(
            config, "schema", partial(_describe_features, config, stored_schema, messages)
        )
        if encoder_fields(config, config.sections.build_schema()):
            yield _check_part(
                config, "encoders", lambda: describe_encoders(config, schema(), messages)
            )
        if river_factories_by_section(config):
            yield _check_part(config, "models", partial(_describe_models, config, schema, messages))
        if (field := config.sections.prediction_field) is not None:
            describe = partial(_describe_recorded_predictions, config, schema, field, messages)
            yield _check_part(config, "model", describe)
        if config.is_distributed:
            yield _check_part(config, "scoring", partial(scorer_limits_text, config))
        yield _check_part(config, "labels", partial(_describe_labels, config, connectors.labels))
        if connectors.initial_data is not None:
            yield _check_part(
                config,
                "initial_data",
                partial(_describe_initial_data, config, schema, connectors.initial_data),
            )
        if config.sections.initial_data.committee is not None:
            yield _check_part(
                config,
                "committee",
                partial(_describe_initial_committee, config, state, schema),
            )
        for name in OUTPUTS:
            section: Output = getattr(config.sections, name)
            yield _check_part(config, name, partial(section.check_access, config.connector_context))
    yield _check_part(config, "retention", partial(_describe_retention, config))
    if config.sections.pipeline.checkpoint_copy is not None:
        yield _check_part(config, "copies", partial(_describe_checkpoint_copies, config))
    if (notify := config.sections.notify) is not None:
        yield _check_part(config, "notify", partial(_describe_notifications, notify))
    if config.sections.label_studio is not None:
        yield _check_part(config, "label_studio", partial(_describe_label_studio_project, config))


def _describe_notifications(section: NotifySection) -> str:
    signed = "not signed" if section.secret is None else "signed"
    return f"{', '.join(section.events)} to {url_origin(section.url)}, {signed}"


def delivery_guarantee(config: Config) -> str:
    """Return a sentence with the delivery guarantee, such as exactly once, and the reason."""
    with closing(create_connectors(config)) as connectors:
        outputs = connectors.outputs
        sinks = {
            "predictions": outputs.predictions,
            "requests": outputs.requests,
            "dead_letters": outputs.dead_letters,
        }
        inputs = {"source": connectors.records, "labels": connectors.labels}
        once = [name for name, source in inputs.items() if not source.is_replayable]
        outside = [name for name, sink in sinks.items() if not connectors.transaction.enlists(sink)]
    if once:
        return (
            f"at most once: {_join_names(once)} {'comes' if len(once) == 1 else 'come'} from "
            "standard input, which cannot be read again; a crash loses messages that were read and "
            'not committed; a restart needs [pipeline] on_data_loss = "continue", and loses the '
            "learning since the newest checkpoint"
        )
    journal = "the journal and the positions"
    if config.is_distributed:
        return _DISTRIBUTED
    if not outside and config.commits_to_kafka:
        return f"exactly once: all outputs are topics of the cluster that holds {journal}"
    if not outside:
        return f"exactly once: all outputs are streams of the log that holds {journal}"
    holder = "the cluster" if config.commits_to_kafka else "the log"
    return (
        f"at least once: {_join_names(outside)} {'is' if len(outside) == 1 else 'are'} outside "
        f"{holder} that holds {journal}; after a crash, some messages may be written twice, with "
        "the same id (dead letters: with the same source and position)"
    )


def _check_part(config: Config, part: str, run_check: Callable[[], str]) -> CheckResult:
    try:
        return CheckResult(part, True, config.mask(run_check()))
    except StreamBoostError as error:
        return CheckResult(part, False, config.mask(str(error)))


def _describe_registered_schemas(config: Config) -> str:
    found = []
    for name in ENDPOINTS:
        section = getattr(config.sections, name)
        if isinstance(section, KafkaTopic) and section.format != "json":
            found.append(f"{name}: {section.registered_schema_text(config.connector_context)}")
    return "; ".join(found)


def _describe_retention(config: Config) -> str:
    retention = config.sections.pipeline.retention
    if config.commits_to_kafka:
        return f"{_describe_retention_of_journal(config)}; {describe_retention_of_topics(config)}"
    if retention == "none":
        return 'retention = "none": the log in the state folder grows with each record'
    unit = " records" if isinstance(retention, int) else ""
    return (
        f"after {retention}{unit}, messages and journal entries are deleted from the log in the "
        'state folder; retention = "none" keeps them'
    )


def _describe_retention_of_journal(config: Config) -> str:
    """Return a text about the retention of a journal in Kafka, and its effect on a rebuild."""
    section, copies = config.sections.pipeline, copy_store_for_rebuild(config)
    with closing(create_transaction(config)) as transaction:
        first = next(transaction.read_journal(), (1, b""))[0]
    loss = ""
    if copies is None and first > 1:
        loss = (
            f"; the journal begins with batch {first}, so that a lost state folder cannot be "
            "rebuilt"
        )
    if section.retention == "none":
        return f'retention = "none": the journal grows with each batch{loss}'
    after = f"after {section.retention}, journal entries that no restart needs are deleted"
    if copies is not None:
        return f"{after}; a lost state folder is rebuilt from a checkpoint_copy"
    unread = "copies of River's models are pickles, which a rebuild does not read"
    if "retention" in section.model_fields_set:
        reason = "without checkpoint_copy" if section.checkpoint_copy is None else f"as {unread}"
        return f"{after}; {reason}, a lost state folder cannot be rebuilt"
    if loss:
        return f"the journal grows with each batch{loss}"
    remedy = (
        "set checkpoint_copy to delete old entries"
        if section.checkpoint_copy is None
        else f"{unread}; set retention to delete old entries nevertheless"
    )
    return f"the journal grows with each batch, as a lost state folder is rebuilt from it: {remedy}"


def _describe_start_of_next_run(config: Config, state: State, transaction: Transaction) -> str:
    """Return the start of the next run as text; StateError if the run would fail to start."""
    check_writable(state.log)
    running = state.running_process_id()
    committed = transaction.last_committed_batch()
    refuse_lost_state(config, committed, create_copy_store(config))
    verify_compatibility(
        config, state, state_has_begun=has_run_before(state, transaction, committed)
    )
    found = state.checkpoint_to_restore(committed.sequence if committed else None)
    if running is not None:
        batch = committed.sequence if committed else 0
        return f"process {running} is running on this state; batch {batch} is committed"
    if committed is None:
        return "empty: the next run starts from the beginning"
    entries = partial(journal_entries, transaction, found, committed.sequence)
    require_same_release(find_other_release_batches(entries(), found))
    digests = encoder_digests(config, _load_schema_of_next_run(config, state))
    require_same_encoders(entries(), found, digests)
    start = found[1]["sequence"] if found else 0
    if lost := find_missing_batches(entries(), start, committed.sequence):
        return _describe_missing_batches(config, *lost, committed.sequence)
    n = committed.sequence - start
    replayed = f"{n} batch{'es' * (n > 1)}" if found else "all batches"
    missed = f", and first replays {replayed}" if n else ""
    return f"the next run continues after batch {committed.sequence}{missed}"


def _describe_missing_batches(config: Config, first: int, last: int, newest: int) -> str:
    """Return a text if the next run continues after batch `newest` without missing batches.

    Raises GapError if [pipeline] on_data_loss is "fail". The journal lacks batches `first` to
    `last`.
    """
    lacking = f"the journal lacks batches {first} to {last}"
    if config.sections.pipeline.on_data_loss == "continue":
        return (
            f"the next run continues after batch {newest}; {lacking}, so that nothing is learned "
            f"from batches {first} to {newest}"
        )
    raise GapError(
        f"{lacking}, and there is no checkpoint after them: restore the log or a checkpoint from "
        'a copy, or set [pipeline] on_data_loss = "continue" to continue without learning from '
        f"batches {first} to {newest}"
    )


def _load_schema_of_next_run(config: Config, state: State) -> Schema:
    """Return the schema of the next run.

    It is read from the newest checkpoint, otherwise from schema.json in the state folder, otherwise
    from the pipeline file.
    """
    _, manifest = state.checkpoints.newest() or (None, {})
    if "schema" in manifest:
        return Schema.from_json(manifest["schema"])
    return state.schema() or config.sections.build_schema()


def _describe_features(config: Config, get_schema: _GetSchema, messages: list[Message]) -> str:
    """Return a text about the features; DataError if the first records do not match the schema."""
    named, schema = config.sections.build_schema(), get_schema()
    if not messages and not schema.has_known_features:
        return "the types of the fields will be inferred from the first records"
    made, is_fresh = transform_messages(config, schema, messages), not schema.has_known_features
    schema, sentence = schema.infer(made)
    added = added_fields(config, schema)
    _refuse_absent_fields(schema, messages, made, added, is_fresh=is_fresh)
    repeated = config.sections.predictions.include
    if missing := absent_fields_error(
        [m.payload for m in messages], repeated, similar_names_only=True
    ):
        raise DataError(f"[predictions] include: {missing}")
    dead = _describe_dead_letters(schema.decode(messages).dead, len(messages))
    if named.has_known_features and (
        missing := absent_fields_error([m.payload for m in messages], named.features)
    ):
        raise DataError(missing)
    if added:
        sentence += f" Added with the next batch: {', '.join(added)}, from the pipeline file"
    return f"{dead} {sentence}" if dead else sentence


def _refuse_absent_fields(
    schema: Schema,
    messages: Sequence[Message],
    transformed: Sequence[Message],
    new_fields: Collection[str],
    *,
    is_fresh: bool,
) -> None:
    """Raise DataError if no record has a field that [schema] names, or a time field is invalid.

    `transformed` are the messages after the transformer. `is_fresh` is whether the pipeline has no
    state yet. Excluded fields may appear only in later records, and so may `new_fields` of a
    pipeline with a state. Such a field is rejected only if its name resembles an unused field.
    """
    here, there = ([m.payload for m in some] for some in (messages, transformed))
    times = [] if schema.time is None else [schema.time]
    if is_fresh:
        for key, names, similar_names_only in (
            ("[schema.fields]", schema.named, False),
            ("[schema] time:", times, False),
            ("[schema] exclude:", schema.exclude, True),
        ):
            seen = here if names is times else there
            if missing := absent_fields_error(seen, names, similar_names_only=similar_names_only):
                raise DataError(f"{key} {missing}")
    elif missing := absent_fields_error(
        there, new_fields, similar_names_only=True, used_names=schema.features
    ):
        raise DataError(f"[schema.fields] {missing}")
    for name in times:
        if wrong := time_field_error(here, name):
            raise DataError(f"[schema] time: {wrong}")


def _describe_models(config: Config, get_schema: _GetSchema, messages: list[Message]) -> str:
    """Return a text about the external models; ConfigurationError if one cannot be created."""
    schema = get_schema()
    if not schema.has_known_features:
        return check_models(config, [])
    records = schema.decode(messages).records
    if config.sections.features is not None:
        pairs = zip(records.messages, records.times, strict=True)
        return check_models(
            config, [(decode_raw_record(message, schema), time) for message, time in pairs]
        )
    values = records.values or []
    return check_models(
        config, [(dict(zip(schema.features, one, strict=False)), None) for one in values]
    )


def _describe_recorded_predictions(
    config: Config, get_schema: _GetSchema, field: str, messages: list[Message]
) -> str:
    """Return the counts of the predictions in `messages`; DataError if none is valid."""
    schema, recorded = get_schema(), RecordedPredictions(field)
    if schema.has_known_features:
        # The classes of the file: they may be newer than those of the state.
        sound = schema.decode(messages).records.messages
        recorded.parse(sound, config.sections.build_schema())
    counts = {name.replace("_", " "): n for name, n in recorded.to_json().items()}
    text = ", ".join(f"{n:,} {name}" for name, n in counts.items() if n) or "no record yet"
    if recorded.n_missing + recorded.n_malformed and not recorded.n_valid:
        raise DataError(
            f"[model] prediction_field {field!r}: {text}: name the field with the prediction"
        )
    return text


def _describe_labels(config: Config, source: Source) -> str:
    """Return a text with the number of labels read; DataError if most labels are invalid."""
    if (said := config.sections.labels.oracle_summary(config.connector_context)) is not None:
        return said
    if not source.is_replayable:
        return _READ_ONCE
    messages = peek_messages(source)
    schema = config.sections.build_schema()
    names = [name for name in astuple(schema.label_fields) if name is not None]
    if missing := absent_fields_error([m.payload for m in messages], names):
        raise DataError(f"{missing}; set the names of the fields in [labels.fields]")
    dead = _describe_dead_letters(
        schema.decode_labels(messages, allow_nulls=True).dead, len(messages)
    )
    count = _message_count_text(len(messages))
    return f"{count}. {dead}" if dead else count


def _describe_initial_data(config: Config, get_schema: _GetSchema, source: Source) -> str:
    """Return a text with the size of the initial data; DataError if most records are invalid."""
    messages, schema = peek_messages(source), get_schema()
    if not messages or not schema.has_known_features:
        return _message_count_text(len(messages))
    known, dead = decode_initial_data(schema, messages, 0)
    said = _describe_dead_letters(dead, len(messages))
    made = transform_messages(config, schema, messages)
    if missing := absent_fields_error([m.payload for m in made], schema.features):
        raise DataError(missing)
    return f"{_message_count_text(len(messages))}, {len(known.ids)} to be learned. {said}".rstrip()


def _describe_initial_committee(config: Config, state: State, get_schema: _GetSchema) -> str:
    """Return the committee's size as text; ConfigurationError if it does not fit the fields."""
    begun = load_initial_model(config, state)
    assert begun is not None
    schema, committee = get_schema(), begun.committee
    said = (
        f"{committee.n_rounds} rounds, {len(committee.classes)} classes, "
        f"{committee.n_features} columns, SHA-256 {begun.digest}"
    )
    if not schema.has_known_features:
        return f"{said}; to be compared with the fields of the first records"
    learner = config.learner_config.build_learner(schema, 0, encoders=config.encoders)
    deploy_initial_committee(committee, schema, learner)
    return said


def _describe_checkpoint_copies(config: Config) -> str:
    """Return the number of copies as text; ConnectorError if no copy can be written."""
    copies = create_copy_store(config)
    assert copies is not None
    name = f"{config.name}.check"
    if isinstance(copies.target, FolderTarget):
        check_writable(copies.target.path / name)
    else:
        copies.target.write(name, b"")
        copies.target.remove(name)
    known = copies.sequences
    newest = f", the newest of batch {known[0]}" if known else ""
    return f"{copies.target} can be written; copies there: {len(known)}{newest}"


def _describe_label_studio_project(config: Config) -> str:
    refuse_unwritable_input(config.sections.labels, "labels")
    studio, choices = label_studio.open_project(config)
    told = f"{studio.where}, choices {', '.join(choices.labels)}"
    refusals = TaskStore(config.state / FILE).refusal_reasons()
    aside = f"; {len(refusals)} requests were refused, the last: {refusals[-1]}" if refusals else ""
    return told + aside


def _describe_dead_letters(dead_letters: Sequence[DeadLetter], n_messages: int) -> str:
    """Return a text about the dead letters; DataError if more than half of the messages are."""
    if not dead_letters:
        return ""
    if 2 * len(dead_letters) > n_messages:
        first = dead_letters[0]
        raise DataError(
            f"{len(dead_letters)} of {n_messages} would be dead letters, first: {first.detail}, in "
            f"{quoted_excerpt(first.payload)}"
        )
    reasons = ", ".join(sorted({letter.reason for letter in dead_letters}))
    return f"{len(dead_letters)} of {n_messages} would be dead letters: {reasons}."


def _message_count_text(n: int) -> str:
    return "nothing there yet" if n == 0 else f"{n} message{'s' * (n > 1)} read"


def _join_names(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1])] * bool(names[:-1]) + names[-1:])
