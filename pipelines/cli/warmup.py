"""Command `streamboost warmup`: compiles the kernels before the first run."""

import sys
from functools import partial

from streamboost.pipelines.cli.options import print_block, print_lines


def warmup() -> None:
    """Compile the numba kernels before a run."""
    from streamboost.pipelines.app.warmup import warm_up

    seconds = warm_up(partial(print_block, file=sys.stderr))
    print_lines(f"all kernels are compiled and cached; this took {seconds:.1f} s")
