"""Command `streamboost warmup`: compiles the kernels before the first run."""

import sys
from functools import partial

from streamboost.pipelines.cli.options import say, say_block

__all__ = ["warmup"]


def warmup() -> None:
    """Compile ahead of the first run."""
    from streamboost.pipelines.app.warmup import warm_up

    seconds = warm_up(partial(say_block, file=sys.stderr))
    say(f"all kernels are compiled and kept; it took {seconds:.1f} s")
