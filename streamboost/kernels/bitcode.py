"""Compilation of inner kernels to LLVM bitcode, without machine code of their own.

numba compiles each function to machine code, including functions that only other kernels call. An
inner kernel stays bitcode: the machine code of its callers contains it. The callers also optimize
it, unless its additions may be reordered, so that all callers add in the same order. This saves a
quarter of the time to compile all kernels.
"""

from typing import Any

from llvmlite.binding import parse_bitcode
from numba.core.caching import CompileResultCacheImpl
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Flags, compile_extra, compile_result
from numba.core.dispatcher import _FunctionCompiler  # type: ignore[attr-defined]

_DEFAULTS = {name: option.default for name, option in Flags.options.items()}
_HASH = hash(Flags())


class KernelFlags(Flags):
    """Compilation flags whose comparison is fast: numba compares flags for each call that it types.

    The base class computes each value by a function, which is a twentieth of the compilation.
    """

    __slots__ = ()

    def __hash__(self) -> int:
        return _HASH  # the base class ignores the values, too

    def values(self) -> dict[str, Any]:
        """Return all options by name."""
        return {**_DEFAULTS, **self._values}


class BitcodeCompiler(_FunctionCompiler):  # type: ignore[misc]
    """Compiler of a function to bitcode, which is linked into the callers."""

    def _compile_core(self, args: Any, return_type: Any) -> Any:
        flags: Any = KernelFlags()
        self.targetdescr.options.parse_as_flags(flags, self.targetoptions)
        flags.no_compile = True
        target = self.targetdescr.target_context
        library = _BitcodeLibrary(target.codegen(), self.py_func.__qualname__)
        library.is_optimized = bool(flags.fastmath)
        compiled = compile_extra(
            self.targetdescr.typing_context,
            target,
            self.py_func,
            args=args,
            return_type=return_type,
            flags=flags,
            locals=self.locals,
            library=library,
            pipeline_class=self.pipeline_class,
        )
        target.insert_user_function(library, compiled.fndesc, [library])
        return compiled._replace(entry_point=library)


class BitcodeCacheImpl(CompileResultCacheImpl):
    """Conversion of functions that `BitcodeCompiler` compiled, to and from cache files."""

    def rebuild(self, target_context: Any, payload: Any) -> Any:
        """Return the function as `BitcodeCompiler` compiled it."""
        (name, _, bitcode), function, environment, signature, *_ = payload
        library = _BitcodeLibrary(target_context.codegen(), name, bitcode)
        return compile_result(
            typing_context=None,
            target_context=target_context,
            entry_point=library,
            library=library,
            signature=signature,
            objectmode=False,
            fndesc=function,
            environment=environment,
        )


class _BitcodeLibrary(JITCodeLibrary):
    """LLVM module of a function. Its hash by identity is the key of the function in numba."""

    is_optimized = True

    def __init__(self, codegen: Any, name: str, bitcode: bytes | None = None) -> None:
        super().__init__(codegen, name)
        if bitcode is not None:
            self._final_module = parse_bitcode(bitcode)
            self._finalize_final_module()

    def _optimize_final_module(self) -> None:
        if self.is_optimized:
            super()._optimize_final_module()

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def serialize_using_object_code(self) -> tuple[str, str, bytes]:
        """Return the name and the bitcode of the function; there is no object code."""
        name, kind, bitcode = self.serialize_using_bitcode()
        return name, kind, bitcode
