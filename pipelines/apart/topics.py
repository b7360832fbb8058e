"""The topics that scorers and learner share, by the pipeline's name."""

__all__ = ["committees_topic", "progress_topic", "scorers_group"]


def progress_topic(pipeline: str) -> str:
    """Return the topic of what scorers have done: as many partitions as records have.

    >>> progress_topic("demo")
    'demo.progress'
    """
    return f"{pipeline}.progress"


def committees_topic(pipeline: str) -> str:
    """Return the topic of what scorers predict by.

    >>> committees_topic("demo")
    'demo.committees'
    """
    return f"{pipeline}.committees"


def scorers_group(pipeline: str) -> str:
    """Return the consumer group of the scorers.

    >>> scorers_group("demo")
    'streamboost.demo.scorers'
    """
    return f"streamboost.{pipeline}.scorers"
