"""Export of committees to ONNX and LightGBM, with the layout of their columns.

`Committee.to_onnx` and `Committee.to_lightgbm` export a committee; `streamboost export` exports
that of a pipeline. The file has the layout of the fields, which encodes records elsewhere:

>>> from streamboost.export import encode, read_layout
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamboost.export.layout import RecordLayout as RecordLayout
    from streamboost.export.layout import encode as encode
    from streamboost.export.layout import read_layout as read_layout

__all__ = ["RecordLayout", "encode", "read_layout"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'streamboost.export' has no attribute {name!r}")
    from streamboost.export import layout

    return getattr(layout, name)
