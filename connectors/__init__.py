"""Connectors for input and output: sources, sinks and the transactions that commit them."""

if __name__ != "streamboost.connectors":
    raise ImportError(
        f"this package is streamboost.connectors and was imported as {__name__!r}: "
        "write `import streamboost.connectors`"
    )
