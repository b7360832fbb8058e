"""What is known of a pipeline, as `streamboost inspect` shows it."""

from streamboost.pipelines.job.inspect.found import describe
from streamboost.pipelines.job.inspect.words import NO_FIGURE, annotators, figures, in_words

__all__ = ["NO_FIGURE", "annotators", "describe", "figures", "in_words"]
