"""Command `streamboost export`: writes a pipeline's committee to a file for other programs."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from streamboost.pipelines.cli.options import PipelineFile, print_lines


class ExportFormatName(StrEnum):
    """Names of the formats of exported committees."""

    safetensors = "safetensors"
    onnx = "onnx"
    lightgbm = "lightgbm"


def export(
    path: PipelineFile,
    format: Annotated[ExportFormatName, typer.Option("--format", help="The format of the file.")],
    version: Annotated[
        int | None,
        typer.Option(
            "--version",
            min=0,
            help="The version of the committee. Default: the active version.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            help="The file to write. Default: NAME-VERSION in the current folder.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write the committee of a pipeline to a file.

    safetensors is the format of Committee.load, onnx that of ONNX Runtime, and lightgbm the text
    format of LightGBM. The file also has the layout of the fields, with which
    streamboost.export.encode computes the columns of records. The pipeline may be running: the
    newest checkpoint is exported.
    """
    from streamboost.pipelines.app.export import export as export_to_file
    from streamboost.pipelines.config.file import load
    from streamboost.pipelines.config.masking import mask_secrets_in_errors_and_log

    config = load(path, learner=False)
    with mask_secrets_in_errors_and_log(config.mask):
        print_lines(*export_to_file(config, format.value, version, output))
