"""Sentence encoders by name: the name of a model on disk, or of a function."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from streamboost.encoders.function import FunctionEncoder
from streamboost.encoders.onnx import load_onnx_encoder

__all__ = ["SentenceEncoder", "SentenceEncoders"]


class SentenceEncoder(Protocol):
    """Interface of sentence encoders.

    Attributes
    ----------
    size : number of numbers in a vector
    digest : SHA-256 (hex) of the encoder's files; None if they are unknown
    """

    size: int
    digest: str | None

    def encode(self, texts: list[str]) -> NDArray[np.float32]:
        """Return the vectors float32 (n, size) of texts; a text without a vector has NaN."""


@dataclass(frozen=True, slots=True)
class SentenceEncoders:
    """Loader of sentence encoders by name.

    A name is a file or folder with an ONNX model and its `tokenizer.json`, or "module:function".
    An ONNX model is loaded once in a process, whatever the number of fields that name it.

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
