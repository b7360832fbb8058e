"""`streamboost warmup`: the kernels, compiled beforehand."""

import sys
from functools import partial

__all__ = ["warmup"]


def warmup() -> None:
    """Compile ahead of the first run."""
    from streamboost.pipelines.job.warmup import warm_up

    seconds = warm_up(partial(print, file=sys.stderr, flush=True))
    print(f"all kernels are compiled and kept; it took {seconds:.1f} s")
