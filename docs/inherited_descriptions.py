"""Gives the site the docstrings of estimators as Python completes them; see `zensical.toml`."""

import inspect
from typing import Any

from griffe import Class, Extension, dynamic_import


class InheritedDescriptions(Extension):
    """Replaces the docstrings that are read from source files."""

    def on_class(self, *, cls: Class, **kwargs: Any) -> None:
        """Take the docstring from the imported class."""
        if cls.docstring and cls.path.startswith("streamboost.boosting."):
            cls.docstring.value = inspect.getdoc(dynamic_import(cls.path)) or ""
