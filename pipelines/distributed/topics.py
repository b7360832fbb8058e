"""Names of the topics and the consumer group of distributed scoring."""


def scoring_log_topic(pipeline: str) -> str:
    """Return the name of the scoring log's topic.

    Each partition of the records topic has one partition in this topic.

    >>> scoring_log_topic("demo")
    'demo.scoring-log'
    """
    return f"{pipeline}.scoring-log"


def models_topic(pipeline: str) -> str:
    """Return the name of the compacted topic with model snapshots.

    >>> models_topic("demo")
    'demo.models'
    """
    return f"{pipeline}.models"


def scorer_group_id(pipeline: str) -> str:
    """Return the name of the consumer group of the scorers.

    >>> scorer_group_id("demo")
    'streamboost.demo.scorers'
    """
    return f"streamboost.{pipeline}.scorers"
