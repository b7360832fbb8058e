"""Sentence encoder that calls a function of the user."""

import sys
from collections.abc import Callable
from importlib import import_module, invalidate_caches
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamboost.errors import ConfigurationError


def import_function(name: str, folder: Path) -> Callable[..., Any]:
    """Return the function named "module:function", from `folder` or an installed package.

    A module of `folder` replaces a module of the same name that was imported from elsewhere, such
    as the folder of another pipeline. Any exception of the import is raised.
    """
    module, _, function = name.partition(":")
    place = folder.absolute()
    sys.path[:] = [str(place), *(one for one in sys.path if one != str(place))]
    invalidate_caches()  # the file may be newer than the listing of its folder
    packages = list(accumulate(module.split("."), "{}.{}".format))
    if any(_is_loaded_from_elsewhere(package, place) for package in packages):
        top = packages[0]
        for known in [each for each in sys.modules if each == top or each.startswith(f"{top}.")]:
            del sys.modules[known]
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found


def _is_loaded_from_elsewhere(module: str, folder: Path) -> bool:
    """Return whether `module` is a file in `folder`, and another file of its name is loaded."""
    loaded = getattr(sys.modules.get(module), "__file__", None)
    place = folder.joinpath(*module.split("."))
    own = [file for file in (place / "__init__.py", place.with_suffix(".py")) if file.is_file()]
    return loaded is not None and own != [] and own[0].resolve() != Path(loaded).resolve()


class FunctionEncoder:
    """Sentence encoder that calls a function, which converts a list of texts to vectors.

    The function gets distinct texts, and returns an array of n rows, such as float32 (n, size).
    Its first call, with one text, gives the size.

    Parameters
    ----------
    name
        Name of the function, "module:function".
    folder
        Folder in which modules are looked for, in addition to installed packages.

    Raises
    ------
    ConfigurationError
        If the function cannot be imported or called, or returns no vectors.
    """

    digest: str | None = None
    caches_vectors = False

    def __init__(self, name: str, folder: Path) -> None:
        self._name = name
        self._folder = folder
        try:
            self._function = import_function(name, folder)
        except Exception as error:  # user code may raise any exception
            raise ConfigurationError(
                f"encoder {name!r} cannot be imported: {type(error).__name__}: {error}; modules "
                f"are looked for in {folder.absolute()} and where packages are installed"
            ) from error
        self.size = 0
        self.size = self._call_function(["text"]).shape[1]

    def __reduce__(self) -> tuple[Any, ...]:
        return FunctionEncoder, (self._name, self._folder)

    def encode(self, texts: list[str]) -> NDArray[np.float32]:
        """Return the vectors of `texts`, float32 (n, size); NaN for a vector that is not finite.

        Raises
        ------
        ConfigurationError
            If the function raises an exception, or returns an array of another shape.
        """
        if not texts:
            return np.empty((0, self.size), dtype=np.float32)
        places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        found = self._call_function(list(places))
        found[~np.isfinite(found).all(axis=1)] = np.nan
        return found[[places[text] for text in texts]]

    def _call_function(self, texts: list[str]) -> NDArray[np.float32]:
        try:
            given = self._function(texts)
        except Exception as error:  # user code may raise any exception
            raise ConfigurationError(
                f"encoder {self._name!r} failed on {len(texts)} texts: {type(error).__name__}: "
                f"{error}; fix the function, and start again: no record is lost"
            ) from error
        try:
            with np.errstate(over="ignore"):  # infinite numbers become NaN
                found = np.array(given, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise ConfigurationError(
                f"encoder {self._name!r} returned a {type(given).__name__} for {len(texts)} texts: "
                f"{error}; return an array of numbers, float32 ({len(texts)}, size)"
            ) from error
        size = self.size or (found.shape[1] if found.ndim == 2 else 0)
        if found.shape != (len(texts), size) or not size:
            expected = f"({len(texts)}, {size or 'size'})"
            raise ConfigurationError(
                f"encoder {self._name!r} returned an array of shape {found.shape} for "
                f"{len(texts)} texts: return {expected}, a vector of the same size for each text"
            )
        return found
