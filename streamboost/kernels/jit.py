"""How every kernel is compiled, and when it is compiled anew."""

import hashlib
import logging
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from numba import njit
from numba.core.caching import FunctionCache, IndexDataCacheFile

__all__ = ["inner_kernel", "kernel", "row_kernel"]

_log = logging.getLogger(__name__)
_warned = False


def kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` on its first call, without the GIL, and keep it on disk.

    Division follows numpy (no exception, so that loops vectorise). It is kept until any file of
    this folder changes, so that kernels may call each other across files. Where numba finds no
    folder it can write its cache to, each process compiles it anew, and a warning says so.
    """
    return _compiled(function)


def inner_kernel(function: Callable[..., Any]) -> Any:
    """Compile `function`, which only kernels call and which allocates nothing.

    Its arrays belong to its caller, so that their references are not counted: the counting is
    atomic, 5 ns for each array at each call, and was a fifth of the time to grow a small tree.
    """
    return _compiled(function, _nrt=False)


def row_kernel(function: Callable[..., Any]) -> Any:
    """Compile as `inner_kernel` one that sums over classes, in whichever order fills vectors.

    A sum in the order written has each addition wait for the last: 26 classes take twice as long.
    The order is the same for all rows, and for all runs on one processor.
    """
    return _compiled(function, _nrt=False, fastmath={"reassoc", "contract"})


def _compiled(function: Callable[..., Any], **options: Any) -> Any:
    global _warned
    compiled = njit(function, nogil=True, error_model="numpy", **options)
    try:
        compiled._cache = _FolderCache(function)  # numba's cache=True puts its own here
    except RuntimeError as error:
        if not _warned:
            _log.warning(
                "compiled kernels cannot be kept (%s) and each process compiles them anew, which "
                "takes a while; set NUMBA_CACHE_DIR to a folder that can be written",
                error,
            )
            _warned = True
    return compiled


class _FolderCache(FunctionCache):
    """numba's cache, which by itself notices changes only in the kernel's own file."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        own = self._impl.locator.get_source_stamp()
        self._cache_file = IndexDataCacheFile(
            self.cache_path, self._impl.filename_base, (own, _digest())
        )


@cache
def _digest() -> str:
    """Return a digest of every source file under this folder."""
    folder = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        source = path.read_bytes()
        digest.update(f"{path.relative_to(folder).as_posix()} {len(source)} ".encode())
        digest.update(source)
    return digest.hexdigest()
