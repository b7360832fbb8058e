"""An observer of a running pipeline."""

from streamboost.pipelines.runner.observers import Observer


def committing(on_commit):
    """Return a watcher that calls a function with the effects of each batch that is committed."""
    observer = Observer()
    observer.on_commit = on_commit
    return observer
