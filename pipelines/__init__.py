"""Pipelines: configuration, runner, state, web service and command line."""

if __name__ != "streamboost.pipelines":
    raise ImportError(
        f"this package is streamboost.pipelines and was imported as {__name__!r}: "
        "write `import streamboost.pipelines`"
    )
