"""The sections of a pipeline file that name where messages lie, and open what they name."""
