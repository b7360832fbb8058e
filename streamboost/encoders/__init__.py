"""Sentence encoders, which convert texts to vectors: ONNX models and functions of the user."""

from streamboost.encoders.encoders import SentenceEncoder, SentenceEncoders
from streamboost.encoders.function import import_function

__all__ = ["SentenceEncoder", "SentenceEncoders", "import_function"]
