"""Commands `streamboost backup` and `restore`: copy a state folder, and bring a copy back."""

from pathlib import Path
from typing import Annotated

import typer

from streamboost.pipelines.cli.options import PipelineFile, print_lines

BackupFolder = Annotated[Path, typer.Argument(help="The folder of the backup.", show_default=False)]


def backup(path: PipelineFile, folder: BackupFolder) -> None:
    """Copy the state of a pipeline, even while it runs.

    The folder must be new. The copy has the log, checkpoints, committees, queued commands, the
    labelling history and tokens. Keep it as safe as the state folder itself.
    """
    from streamboost.pipelines.app.backup import back_up
    from streamboost.pipelines.config.file import load

    made = back_up(load(path, learner=False), folder)
    print_lines(
        f"{folder}: a checkpoint of batch {made.checkpoint}, and a journal up to batch "
        f"{made.committed}, in {len(made.files)} files"
        if made.committed
        else f"{folder}: a checkpoint of batch {made.checkpoint}, in {len(made.files)} files"
    )


def restore(path: PipelineFile, folder: BackupFolder) -> None:
    """Restore a pipeline's state from a backup.

    The state folder must be empty. `streamboost run` then continues after the last batch of the
    backup. Records since then are read and predicted again.
    """
    from streamboost.pipelines.app.backup import restore_backup
    from streamboost.pipelines.config.file import load

    config = load(path, learner=False)
    made = restore_backup(config, folder)
    print_lines(
        f"{config.state}: restored; `streamboost run {path}` continues after batch "
        f"{max(made.committed, made.checkpoint)}"
    )
