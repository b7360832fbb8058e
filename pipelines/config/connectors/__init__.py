"""Connector sections of a pipeline file: their keys, and the sources and sinks that they open."""
