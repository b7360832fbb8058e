"""LightGBM's text format of models: one tree for each class and each tree of a committee."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from streamboost.export.model import TreeModel
from streamboost.export.trees import ExportedTree, iterate_exported_trees

_CATEGORICAL, _DEFAULT_LEFT, _MISSING_IS_NAN = 1, 2, 8
"""Bits of LightGBM's `decision_type`."""

_WORD = 32
"""Bits of a word in LightGBM's sets of categories."""


def to_lightgbm(model: TreeModel, metadata: Mapping[str, str] | None = None) -> str:
    """Return `model` in LightGBM's text format, version 4.

    Tree i of the model becomes K trees of one iteration, with equal nodes; the k-th has the leaf
    values of class k. The first iteration has the base scores. LightGBM adds up the same numbers in
    the same order, so that its raw scores have the same bits.

    The file has an objective if LightGBM has the link: "multiclass" for softmax at temperature 1,
    and "multiclassova" for sigmoids without calibration. Otherwise `Booster.predict` returns the
    raw scores.

    `metadata` maps names to text, in header lines that LightGBM ignores. A name has no "=".
    """
    header = [
        "tree",
        "version=v4",
        f"num_class={len(model.classes)}",
        f"num_tree_per_iteration={len(model.classes)}",
        "label_index=0",
        f"max_feature_idx={model.n_features - 1}",
        *_objective_lines(model),
        f"feature_names={' '.join(_feature_names(model))}",
        f"feature_infos={' '.join(['none'] * model.n_features)}",
        *(f"{name}={_escape(text)}" for name, text in (metadata or {}).items()),
    ]
    trees = [
        f"Tree={number}\n{text}\n\n" for number, text in enumerate(_tree_texts(model))
    ]  # LightGBM finds the trees by their sizes
    sizes = " ".join(str(len(tree)) for tree in trees)
    head = "\n".join([*header, f"tree_sizes={sizes}"])
    return f"{head}\n\n{''.join(trees)}end of trees\n\npandas_categorical:null\n"


def read_metadata(text: str) -> dict[str, str]:
    """Return the metadata in the header of a model in LightGBM's text format."""
    head = text.partition("\nTree=")[0]
    pairs = (line.partition("=") for line in head.split("\n"))
    return {name: json.loads(value) for name, _, value in pairs if value.startswith('"')}


def _objective_lines(model: TreeModel) -> list[str]:
    """Return LightGBM's line of the objective, or no line if LightGBM does not have the link."""
    K = len(model.classes)
    if K > 1 and model.link == "softmax" and model.temperature * model.calibration == 1.0:
        return [f"objective=multiclass num_class:{K}"]
    if K > 1 and model.link == "sigmoid" and model.calibration == 1.0:
        return [f"objective=multiclassova num_class:{K} sigmoid:{1.0 / model.temperature!r}"]
    return []


def _feature_names(model: TreeModel) -> Sequence[str]:
    """Return unique names of the columns, without the characters that LightGBM does not support."""
    if not model.columns:
        return [f"Column_{f}" for f in range(model.n_features)]
    names = [re.sub(r"[^\w.-]+", "_", name, flags=re.ASCII) for name in model.columns]
    return [name if names.count(name) == 1 else f"{name}_{f}" for f, name in enumerate(names)]


def _escape(text: str) -> str:
    """Return JSON of `text` without "=", which separates names from values in the header."""
    return json.dumps(text).replace("=", "\\u003d")


def _tree_texts(model: TreeModel) -> Iterator[str]:
    for base in model.base.tolist():
        yield _single_leaf_text(base)
    for tree in iterate_exported_trees(model.forest):
        nodes = _node_lines(tree)
        for values in tree.values.T.astype(np.float64).tolist():
            yield (
                "\n".join([*nodes, _attribute_line("leaf_value", values), *_LAST])
                if nodes
                else _single_leaf_text(values[0])
            )


_LAST = ("is_linear=0", "shrinkage=1", "")


def _single_leaf_text(value: float) -> str:
    return "\n".join(["num_leaves=1", "num_cat=0", _attribute_line("leaf_value", [value]), *_LAST])


def _attribute_line(name: str, values: Sequence[Any]) -> str:
    return f"{name}={' '.join(map(repr, values))}"


def _node_lines(tree: ExportedTree) -> list[str]:
    """Return LightGBM's lines for the splits of `tree`; an empty list if it is a single leaf.

    The lines are the same in its K copies, one per class, which differ only in the leaf values.
    """
    if not len(tree):
        return []
    threshold = tree.threshold.astype(np.float64).tolist()
    kinds = (_MISSING_IS_NAN + _DEFAULT_LEFT * tree.missing_left.astype(int)).tolist()
    words: list[np.ndarray] = []
    for place, (node, members) in enumerate(sorted(tree.members.items())):
        threshold[node] = place
        kinds[node] = _CATEGORICAL + _MISSING_IS_NAN
        words.append(_category_bit_set(members))
    bounds = np.cumsum([0, *map(len, words)]).tolist()
    sets = [
        _attribute_line("cat_boundaries", bounds),
        _attribute_line("cat_threshold", np.concatenate(words).tolist()),
    ] if words else []  # fmt: skip
    return [
        f"num_leaves={len(tree) + 1}",
        f"num_cat={len(words)}",
        _attribute_line("split_feature", tree.feature.tolist()),
        _attribute_line("split_gain", tree.gain.astype(np.float64).tolist()),
        _attribute_line("threshold", threshold),
        _attribute_line("decision_type", kinds),
        _attribute_line("left_child", tree.left.tolist()),
        _attribute_line("right_child", tree.right.tolist()),
        *sets,
    ]


def _category_bit_set(members: np.ndarray) -> np.ndarray:
    """Return the bit set of the categories `members`, uint32 (words,); bit c is for category c."""
    categories = members.astype(np.int64)
    bits = np.zeros(_WORD * (int(categories.max(initial=0)) // _WORD + 1), dtype=np.uint8)
    bits[categories] = 1
    return np.packbits(bits, bitorder="little").view(np.dtype("<u4"))
