"""Command `streamboost init`: writes a pipeline file from a template, or for labelled records."""

from pathlib import Path
from typing import Annotated

import typer

from streamboost.errors import ConfigurationError
from streamboost.pipelines.cli.options import DEFAULT_FILE, print_block, print_lines

_RECORDS = (".csv", ".jsonl", ".json", ".ndjson", ".parquet", ".pq")


def init(
    path: Annotated[
        Path,
        typer.Argument(
            help="The pipeline file to write. With --label, the file of labelled records."
        ),
    ] = DEFAULT_FILE,
    label: Annotated[
        str | None,
        typer.Option(
            help="The field that holds the label, such as kind or o.kind.", show_default=False
        ),
    ] = None,
    id: Annotated[
        str | None,
        typer.Option(help='The field that holds the record id. Default: "id".', show_default=False),
    ] = None,
    output: Annotated[
        Path, typer.Option(help="The pipeline file to write if --label is given.")
    ] = DEFAULT_FILE,
    kafka: Annotated[bool, typer.Option("--kafka", help="Use topics of a Kafka cluster.")] = False,
    every: Annotated[
        bool, typer.Option("--all", help="Include all keys, with their default values.")
    ] = False,
) -> None:
    """Write a pipeline file to start from.

    With `init FILE --label FIELD`, the file is for your own records: JSON Lines or CSV, also .gz,
    or Parquet.
    """
    if label is not None:
        _refuse_kafka_and_all_with_label(path, kafka=kafka, every=every)
        _write_pipeline_file_for_records(path, label, id, output)
        return
    _refuse_records_file_without_label(path, id, output)
    if every:
        from streamboost.pipelines.config.templates.every import render_template
    else:
        from streamboost.pipelines.config.templates.brief import render_template
    _write_new_text_file(path, render_template(kafka=kafka))
    print_lines(f"wrote {path}; see `streamboost check {path}`, then `streamboost run {path}`")


def _refuse_kafka_and_all_with_label(path: Path, *, kafka: bool, every: bool) -> None:
    if kafka or every:
        raise ConfigurationError(
            f"init {path} --label: leave out --kafka and --all, which --label does not support"
        )


def _refuse_records_file_without_label(path: Path, id: str | None, output: Path) -> None:
    name = path.name.lower().removesuffix(".gz")
    if name.endswith(_RECORDS) or id is not None or output != DEFAULT_FILE:
        raise ConfigurationError(
            f"init {path}: the label field of the records is missing: give it as --label FIELD"
        )


def _write_pipeline_file_for_records(
    records: Path, label: str, id: str | None, output: Path
) -> None:
    from streamboost.pipelines.demo.first_file import generate_pipeline_file

    if output.exists():
        raise _file_exists_error(output)
    made = generate_pipeline_file(records, label, id, output.parent)
    _write_new_text_file(output, made.text)
    print_block(made.about)
    print_lines(
        f"wrote {output}; see `streamboost check {output}`, then "
        f"`streamboost run {output} --until-idle`"
    )


def _write_new_text_file(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise _file_exists_error(path) from None
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from error


def _file_exists_error(path: Path) -> ConfigurationError:
    return ConfigurationError(f"{path} already exists: give another file, or move this file away")
