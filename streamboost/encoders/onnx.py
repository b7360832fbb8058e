"""Sentence encoder that runs an ONNX model with its tokenizer."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamboost.errors import ConfigurationError

MAX_TOKENS = 256
"""Maximum number of tokens of a text, if `tokenizer.json` has no limit. MiniLM's limit is 256."""

CACHED = 10_000
"""Number of texts whose vectors are cached: 15 MB of vectors of 384 numbers."""

_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_POOLED = "sentence_embedding"

_LOADED = 8
"""Maximum number of loaded models."""


class OnnxEncoder:
    """Sentence encoder that runs an ONNX model with its tokenizer, on the CPU.

    The vector is the output `sentence_embedding` of the model, otherwise the mean of the token
    vectors in its first output. Vectors are normalized to length 1 (Reimers and Gurevych 2019).
    Each text is a batch of its own, because a batch can change the vectors of its texts. A
    quantized model scales its numbers by the batch: with 32 texts, MiniLM's vectors have a cosine
    of 0.99 to those of single texts. So a vector depends on its text only, and can be cached.

    Parameters
    ----------
    name
        Name of the encoder, for error messages.
    model, tokenizer
        The ONNX file, and `tokenizer.json` of the package `tokenizers`.
    threads
        Number of texts that are encoded at the same time.

    Raises
    ------
    ConfigurationError
        If a package is not installed, or a file is invalid.
    """

    caches_vectors = True

    def __init__(self, name: str, model: Path, tokenizer: Path, threads: int) -> None:
        self._name = name
        self._reduced = name, model, threads
        self.digest: str | None = _files_digest(model, tokenizer)
        self._tokenizer = _load_tokenizer(name, tokenizer)
        self._session = _load_onnx_session(name, model)
        self._inputs = {one.name: _input_dtype(one.type) for one in self._session.get_inputs()}
        if unknown := sorted(self._inputs.keys() - set(_INPUTS)):
            raise ConfigurationError(
                f"encoder {name!r}: {model} needs the input {unknown[0]!r}: give a model whose "
                f"inputs are among {', '.join(_INPUTS)}"
            )
        outputs = [one.name for one in self._session.get_outputs()]
        self._output = _POOLED if _POOLED in outputs else outputs[0]
        self._pool = ThreadPoolExecutor(threads, "encoder") if threads > 1 else None
        self._cache: dict[bytes, NDArray[np.float32]] = {}
        self._caching = Lock()
        try:
            probe = self._encode_text("text")
            if np.isnan(probe).any():
                raise ValueError("its vector of the text 'text' is empty or not finite")
            self.size = len(probe)
        except Exception as error:  # onnxruntime has no base class of its exceptions
            raise ConfigurationError(
                f"encoder {name!r}: {model} cannot encode a text: {error}; give a model that "
                "returns a vector for each token, or the output sentence_embedding"
            ) from error

    def __reduce__(self) -> tuple[Any, ...]:
        return load_onnx_encoder, self._reduced

    def encode(self, texts: list[str]) -> NDArray[np.float32]:
        """Return the vectors of `texts`, float32 (n, size); NaN for a text without tokens.

        Equal texts are encoded once. The vectors of the newest texts are cached.
        """
        keys = [_text_cache_key(text) for text in texts]
        with self._caching:
            vectors = {key: self._cache[key] for key in keys if key in self._cache}
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in vectors}
        run = map if self._pool is None else self._pool.map
        found = dict(zip(missing, run(self._encode_text, missing.values()), strict=True))
        with self._caching:
            self._cache.update(found)
            for oldest in list(islice(self._cache, max(len(self._cache) - CACHED, 0))):
                del self._cache[oldest]
        vectors |= found
        X = np.empty((len(texts), self.size), dtype=np.float32)
        for row, key in enumerate(keys):
            X[row] = vectors[key]
        return X

    def _encode_text(self, text: str) -> NDArray[np.float32]:
        """Return the vector of a text, float32 (size,); a single NaN (1,) if it has no tokens."""
        tokens = self._tokenizer.encode(text)
        if not tokens.ids:
            return np.full(1, np.nan, dtype=np.float32)
        given = dict(
            zip(_INPUTS, (tokens.ids, tokens.attention_mask, tokens.type_ids), strict=True)
        )
        feeds = {name: np.array([given[name]], dtype=dtype) for name, dtype in self._inputs.items()}
        (output,) = self._session.run([self._output], feeds)
        vector = output[0].astype(np.float32)
        if vector.ndim == 2:
            vector = vector.mean(axis=0)
        if vector.ndim != 1:
            raise ValueError(f"its output {self._output!r} has {output.ndim} dimensions")
        length = np.sqrt(vector @ vector)
        if not np.isfinite(length) or length == 0.0:
            return np.full(len(vector), np.nan, dtype=np.float32)
        return np.asarray(vector / length, dtype=np.float32)


def _text_cache_key(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def load_onnx_encoder(name: str, path: Path, threads: int) -> OnnxEncoder:
    """Return the encoder of the ONNX model at `path`, a file or folder; loaded models are shared.

    `tokenizer.json` is in the same folder, or in the one above. In a folder, the model is
    `model.onnx`, `onnx/model.onnx`, or the only file that ends with `.onnx`.

    Raises
    ------
    ConfigurationError
        If a file is missing or invalid, or a package is not installed.
    """
    path = path.absolute()
    model = path if path.is_file() else _find_model_file(name, path)
    places = [model.parent / "tokenizer.json", model.parent.parent / "tokenizer.json"]
    tokenizer = next((place for place in places if place.is_file()), None)
    if tokenizer is None:
        raise ConfigurationError(
            f"encoder {name!r}: {places[0]} is missing: put the model's tokenizer.json there"
        )
    changed = tuple((file.stat().st_mtime_ns, file.stat().st_size) for file in (model, tokenizer))
    return _load_once(name, model, tokenizer, threads, changed)


@lru_cache(maxsize=_LOADED)
def _load_once(
    name: str,
    model: Path,
    tokenizer: Path,
    threads: int,
    file_times_and_sizes: tuple[tuple[int, int], ...],
) -> OnnxEncoder:
    """Load a model, or return the loaded one if its arguments are equal (they are the cache key).

    `file_times_and_sizes` are those of its files, so that changed files are loaded again.
    """
    return OnnxEncoder(name, model, tokenizer, threads)


def _find_model_file(name: str, folder: Path) -> Path:
    usual = [folder / "model.onnx", folder / "onnx" / "model.onnx"]
    found = [path for path in usual if path.is_file()] or sorted(folder.glob("*.onnx"))
    if not folder.exists():
        raise ConfigurationError(
            f"encoder {name!r}: {folder} does not exist: name a folder with an ONNX model and its "
            'tokenizer.json, or a function as "module:function"'
        )
    if not found or (len(found) > 1 and found[0] not in usual):
        has = f"has {len(found)} files that end with .onnx" if found else "has no model.onnx"
        raise ConfigurationError(f"encoder {name!r}: {folder} {has}: name the file of the model")
    return found[0]


def _load_tokenizer(name: str, path: Path) -> Any:
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise _missing_package_error(name, error) from error
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the package raises plain Exception
        raise ConfigurationError(
            f"encoder {name!r}: {path} cannot be read: {error}; put the model's tokenizer.json "
            "there, in the format of the package tokenizers"
        ) from error
    tokenizer.no_padding()
    if tokenizer.truncation is None:
        tokenizer.enable_truncation(MAX_TOKENS)
    return tokenizer


def _load_onnx_session(name: str, model: Path) -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise _missing_package_error(name, error) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # texts run in parallel instead
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has no base class of its exceptions
        raise ConfigurationError(
            f"encoder {name!r}: {model} cannot be loaded: {error}; give a valid ONNX model"
        ) from error


def _missing_package_error(name: str, error: ImportError) -> ConfigurationError:
    return ConfigurationError(
        f"encoder {name!r} needs the package {error.name}: install it with "
        "`pip install 'streamboost[encoders]'`"
    )


def _input_dtype(onnx_type: str) -> type[np.signedinteger[Any]]:
    return np.int32 if onnx_type == "tensor(int32)" else np.int64


def _files_digest(model: Path, tokenizer: Path) -> str:
    """Return the SHA-256 (hex) of the model, its files of external data and its tokenizer."""
    hashed = hashlib.sha256()
    for path in [*sorted(model.parent.glob(f"{model.name}*")), tokenizer]:
        with path.open("rb") as file:
            hashed.update(hashlib.file_digest(file, "sha256").digest())
    return hashed.hexdigest()
