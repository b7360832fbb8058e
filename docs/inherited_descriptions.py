"""Griffe extension that shows inherited docstrings of estimators; see `zensical.toml`."""

import inspect
from typing import Any

from griffe import Class, Extension, dynamic_import


class InheritedDescriptions(Extension):
    """Replaces docstrings read from source files with those of the imported classes."""

    def on_class(self, *, cls: Class, **kwargs: Any) -> None:
        """Take the docstring from the imported class."""
        if cls.docstring and cls.path.startswith("streamboost.boosting."):
            cls.docstring.value = inspect.getdoc(dynamic_import(cls.path)) or ""
