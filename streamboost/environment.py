"""Environment that bitwise results depend on: releases of packages and the processor."""

import hashlib
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version

import streamboost

_PACKAGES = (
    "llvmlite",
    "numba",
    "numpy",
    "onnxruntime",
    "river",
    "scikit-learn",
    "tokenizers",
)


@cache
def environment() -> dict[str, str]:
    """Return a mapping from package, "machine" or "processor" to its version or description.

    Trainings in two environments with equal mappings give bitwise equal results.
    """
    # Imported here: it would delay the answer of --help.
    from llvmlite import binding

    features = ",".join(sorted(k for k, on in binding.get_host_cpu_features().items() if on))
    return {
        "streamboost": streamboost.__version__,
        "python": platform.python_version(),
        **{name: _package_version(name) for name in _PACKAGES},
        "machine": f"{platform.system()} {platform.machine()}",
        "processor": str(binding.get_host_cpu_name()),
        "processor_features": hashlib.sha256(features.encode()).hexdigest()[:16],
    }


def describe_differences(before: dict[str, str] | None, now: dict[str, str]) -> str:
    """Return a text that lists the differences of two `environment()` results; "" if equal.

    >>> describe_differences({"numpy": "2.1", "numba": "0.60"}, {"numpy": "2.2", "numba": "0.60"})
    'numpy 2.1 is now 2.2'
    """
    before = before or {}
    changed = [
        f"{key} {before.get(key, 'unknown')} is now {value}"
        for key, value in now.items()
        if before.get(key) != value
    ]
    return ", ".join(changed)


def _package_version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"
