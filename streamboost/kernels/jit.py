"""Just-in-time compilation of the kernels with numba, and the cache of compiled kernels."""

import hashlib
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from numba.core import event
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.compiler import Compiler
from numba.core.registry import CPUDispatcher
from numba.core.types import unliteral

from streamboost.kernels.bitcode import BitcodeCacheImpl, BitcodeCompiler, KernelFlags

_log = logging.getLogger(__name__)
_warned = False


def kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` with numba on its first call, to run without the GIL; cache it on disk.

    Division by zero raises no exception, as in numpy, so that loops are vectorised. The cache is
    invalidated if any file of this folder changes, as kernels call each other across files. If
    numba finds no writable folder for its cache, each process compiles the kernel again, and a
    warning is logged.
    """
    return _compile_with_disk_cache(_KernelDispatcher, _FolderCache, function)


def inner_kernel(function: Callable[..., Any]) -> Any:
    """Compile a function that only other kernels call, without reference counting of its arrays.

    The function must not allocate arrays. Reference counting takes 5 ns per array and call, and was
    a fifth of the time to grow a small tree. A call from Python raises TypeError: the function is
    compiled to bitcode only (`BitcodeCompiler`), without the conversion of Python objects.
    """
    return _compile_for_kernels(function)


def fastmath_kernel(function: Callable[..., Any]) -> Any:
    """Compile a function like `inner_kernel`, and let the compiler reorder its additions.

    Use this decorator for sums over classes: in source order, a sum of 26 classes takes twice as
    long. The order is the same for all rows, and for all runs on the same processor.
    """
    return _compile_for_kernels(function, fastmath={"reassoc", "contract"})


@contextmanager
def watch_compilations(on_compilation: Callable[[], object]) -> Iterator[None]:
    """Context manager that calls `on_compilation` before each compilation of a cached kernel."""
    with event.install_listener("numba:compile", _CompilationListener(on_compilation)):
        yield


class _CompilationListener(event.Listener):
    def __init__(self, on_compilation: Callable[[], object]) -> None:
        self._on_compilation = on_compilation

    def on_start(self, event: Any) -> None:
        """Report a compilation whose result is cached on disk."""
        if event.data["dispatcher"].stats.cache_path is not None:
            self._on_compilation()

    def on_end(self, event: Any) -> None:
        """Do nothing."""


class _KernelDispatcher(CPUDispatcher):
    """Numba dispatcher that compiles a kernel once for all values of a constant argument.

    The base class compiles a kernel again for each constant that another kernel calls it with.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._compiler: Any
        self._compiler._customize_flags = KernelFlags

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Return the call template of the types of the arguments, without their values."""
        return super().get_call_template(
            tuple(map(unliteral, args)), {name: unliteral(one) for name, one in kws.items()}
        )


class _InnerKernelDispatcher(_KernelDispatcher):
    """Dispatcher of a kernel without a Python wrapper: a call from Python raises TypeError.

    The base class would call the missing wrapper, and crash. As a class, the dispatcher refuses
    calls also after unpickling in another process.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._compiler = BitcodeCompiler(
            self.py_func, self.targetdescr, self.targetoptions, self.locals, Compiler
        )

    def _insert(self, *_args: Any) -> None:
        """Do not register a compiled function for calls from Python."""

    def _compile_for_args(self, *_args: Any, **_kws: Any) -> NoReturn:
        raise TypeError(f"{self.py_func.__qualname__} can be called by other kernels only")


def _compile_for_kernels(function: Callable[..., Any], **options: Any) -> Any:
    options = {"_nrt": False, "no_cpython_wrapper": True, **options}
    return _compile_with_disk_cache(_InnerKernelDispatcher, _BitcodeCache, function, **options)


def _compile_with_disk_cache(
    dispatcher: type[_KernelDispatcher],
    cache: "type[_FolderCache]",
    function: Callable[..., Any],
    **options: Any,
) -> Any:
    global _warned
    options = {
        "nopython": True,
        "boundscheck": None,  # numba's configuration decides
        "nogil": True,
        "error_model": "numpy",
        "no_cfunc_wrapper": True,
        **options,
    }
    compiled: Any = dispatcher(py_func=function, targetoptions=options)
    try:
        compiled._cache = cache(function)  # the attribute that numba's cache=True sets
    except RuntimeError as error:
        if not _warned:
            _log.warning(
                "compiled kernels cannot be kept (%s) and each process compiles them again, which "
                "takes a while; set NUMBA_CACHE_DIR to a folder that can be written",
                error,
                extra={"event": "kernel_cache_unavailable"},
            )
            _warned = True
    return compiled


class _FolderCache(FunctionCache):
    """Numba cache of a kernel, which is invalidated when any file of this folder changes.

    The base class only detects changes of the file that contains the kernel.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        own = self._impl.locator.get_source_stamp()
        self._cache_file = _TolerantIndex(
            self.cache_path, self._impl.filename_base, (own, _digest_of_kernel_files())
        )


class _BitcodeCache(_FolderCache):
    """Cache of an inner kernel."""

    _impl_class: Any = BitcodeCacheImpl


class _TolerantIndex(IndexDataCacheFile):
    """Index of the numba cache. It is empty if its file refers to types that no longer exist."""

    def _load_index(self) -> dict[Any, str]:
        try:
            return dict(super()._load_index())
        except (AttributeError, ImportError):  # a type was renamed; the stamp is checked later
            return {}


@cache
def _digest_of_kernel_files() -> str:
    """Return the SHA-256 digest, as hex, of all source files in this folder."""
    folder = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        source = path.read_bytes()
        digest.update(f"{path.relative_to(folder).as_posix()} {len(source)} ".encode())
        digest.update(source)
    return digest.hexdigest()
