"""Command `streamboost check`: validates a pipeline file, and prints its delivery guarantee."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streamboost.errors import ConfigurationError
from streamboost.pipelines.cli.options import DEFAULT_FILE, PipelineFile, print_block, print_lines

if TYPE_CHECKING:
    from streamboost.pipelines.config.file import Config


def check(
    path: PipelineFile = DEFAULT_FILE,
    create_topics: Annotated[
        bool, typer.Option("--create-topics", help="Create missing Kafka topics before the check.")
    ] = False,
    show: Annotated[
        bool, typer.Option("--show", help="Print the file with all default values.")
    ] = False,
) -> None:
    """Check a pipeline file.

    The check connects to all inputs and outputs. It prints problems first, then the inferred fields
    of the records, and the delivery guarantee.
    """
    from streamboost.pipelines.config.file import load
    from streamboost.pipelines.config.masking import mask_secrets_in_errors_and_log

    config = load(path)
    from streamboost.pipelines.app import check as checking
    from streamboost.pipelines.state.folder import State

    with mask_secrets_in_errors_and_log(config.mask):
        created = _create_missing_topics(config) if create_topics else []
        findings = sorted(checking.check_pipeline(config), key=lambda finding: finding.ok)
        n_failed = sum(not finding.ok for finding in findings)
        command = "run --workers 3" if config.is_distributed else "run"
        is_running = State(config.state).is_running()
        print_lines(_check_result_text(path, n_failed, command, is_running=is_running), *created)
        for finding in findings:
            passed = "ok    " if finding.ok else "FAILED"
            print_block(f"{finding.part:<13} {passed}  {finding.text}")
        if not n_failed:
            print_lines(f"{'guarantee':<13} {checking.delivery_guarantee(config)}")
    if show:
        print_lines(
            "", f"# {path}, all defaults filled in; relative paths start at {config.folder}", ""
        )
        print_lines(*config.to_toml().split("\n"))
    if n_failed:
        raise typer.Exit(1)


def _check_result_text(path: Path, n_failed: int, command: str, *, is_running: bool) -> str:
    if not n_failed and is_running:
        return f"OK: {path} is valid, and its pipeline is running"
    if not n_failed:
        return f"OK: {path} is valid; start it with `streamboost {command} {path}`"
    return f"FAILED: {n_failed} part{'s' * (n_failed > 1)} of {path} must be fixed"


def _create_missing_topics(config: "Config") -> list[str]:
    if config.sections.kafka is None:
        raise ConfigurationError("--create-topics: the pipeline file has no section [kafka]")
    from streamboost.pipelines.app.connect import create_topics

    created = create_topics(config)
    return [f"{'topics':<13} ok      {'created ' + ', '.join(created) if created else 'all exist'}"]
