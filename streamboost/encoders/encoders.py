"""Loader of sentence encoders by name: the path of a model, or the name of a function."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from streamboost.encoders.function import FunctionEncoder
from streamboost.encoders.onnx import load_onnx_encoder


class SentenceEncoder(Protocol):
    """Interface of sentence encoders.

    Attributes
    ----------
    size : length of a vector
    digest : SHA-256 (hex) of the encoder's files; None if they are unknown
    caches_vectors : whether the vectors of the newest texts are cached
    """

    size: int
    digest: str | None
    caches_vectors: bool

    def encode(self, texts: list[str]) -> NDArray[np.float32]:
        """Return the vectors of `texts`, float32 (n, size); NaN for a text without a vector."""


@dataclass(frozen=True, slots=True)
class SentenceEncoders:
    """Loader of sentence encoders by name.

    A name is the path of an ONNX model or of a folder with a model and its `tokenizer.json`, or
    "module:function". If several fields name the same ONNX model, it is loaded once in a process.

    Parameters
    ----------
    folder
        Folder in which relative paths and modules are looked for, in addition to installed
        packages.
    threads
        Number of texts that an ONNX model encodes at the same time.
    """

    folder: Path = Path()
    threads: int = 1

    def load(self, name: str) -> SentenceEncoder:
        """Return the encoder of this name.

        Raises
        ------
        ConfigurationError
            If the model or function is missing or invalid, or a package is not installed.
        """
        path = self.folder / Path(name).expanduser()
        if re.fullmatch(r"[\w.]+:\w+", name) and not path.exists():
            return FunctionEncoder(name, self.folder)
        return load_onnx_encoder(name, path, self.threads)
