"""A lock for kernel compilation, so that each kernel is compiled by one process only."""

import fcntl
import hashlib
from contextlib import contextmanager

from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher
from numba.core.sigutils import normalize_signature


@contextmanager
def each_kernel_once(folder):
    """Let one of the processes that share `folder` compile a kernel, and the others wait for it.

    Who comes second finds the kernel on disk, rather than to compile it on the other core. Other
    kernels are compiled meanwhile. Kernels call each other without a circle, so nobody waits for
    who waits for him.
    """
    compile_or_load = Dispatcher.compile

    def compiled(dispatcher, signature):
        function = dispatcher.py_func
        arguments, _ = normalize_signature(signature)
        what = f"{function.__code__.co_filename} {function.__qualname__} {arguments}"
        # A thread of this process that compiles may want this kernel next: it has its turn first.
        with (
            global_compiler_lock,
            (folder / hashlib.sha256(what.encode()).hexdigest()).open("a") as file,
        ):
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                return compile_or_load(dispatcher, signature)
            finally:
                fcntl.flock(file, fcntl.LOCK_UN)

    Dispatcher.compile = compiled
    yield
    Dispatcher.compile = compile_or_load
