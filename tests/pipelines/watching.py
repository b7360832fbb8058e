"""Looking on as a pipeline works."""

from streamboost.pipelines.engine.watchers import Watcher


def committing(on_commit):
    """Return a watcher that calls a function with the effects of each batch that is committed."""
    watcher = Watcher()
    watcher.committed = on_commit
    return watcher
