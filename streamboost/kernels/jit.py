"""How every kernel is compiled."""

import logging
from collections.abc import Callable
from typing import Any

from numba import njit

__all__ = ["inner_kernel", "kernel"]

_log = logging.getLogger(__name__)
_warned = False


def kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` on its first call, without the GIL, and keep it on disk.

    Division follows numpy (no exception, so that loops vectorise). Where numba finds no folder it
    can write its cache to, the kernel is compiled anew by each process, and a warning says so.
    """
    return _compiled(function)


def inner_kernel(function: Callable[..., Any]) -> Any:
    """Compile `function`, which only kernels of its own file call and which allocates nothing.

    Its arrays belong to its caller, so that their references are not counted: the counting is
    atomic, 5 ns for each array at each call, and was a fifth of the time to grow a small tree.
    """
    return _compiled(function, _nrt=False)


def _compiled(function: Callable[..., Any], **options: Any) -> Any:
    global _warned
    try:
        return njit(function, nogil=True, cache=True, error_model="numpy", **options)
    except RuntimeError as error:
        if not _warned:
            _log.warning(
                "compiled kernels cannot be kept (%s) and each process compiles them anew, which "
                "takes a while; set NUMBA_CACHE_DIR to a folder that can be written",
                error,
            )
            _warned = True
        return njit(function, nogil=True, error_model="numpy", **options)
