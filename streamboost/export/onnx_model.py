"""ONNX models of committees: a tree ensemble, its link and decisions as standard operators."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from streamboost.errors import ConfigurationError, DataError
from streamboost.export.model import TreeModel
from streamboost.export.trees import ExportedTree, iterate_exported_trees

MOST_MEMBERS = 1_000
"""Largest number of categories on one side of a split. Each category needs an ONNX node, and ONNX
Runtime evaluates the chain of these nodes by recursion."""

_ML, _AI, _IR = 3, 17, 8
"""Versions of ONNX's operators for machine learning, of its other operators, and of the file."""

_FLOAT32_BITS = 23


def to_onnx(
    model: TreeModel,
    metadata: Mapping[str, str] | None = None,
    decision: Mapping[str, np.ndarray] | None = None,
) -> bytes:
    """Return `model` as a serialized ONNX model, of version 3 of `ai.onnx.ml`.

    Input: `X` float32 (n, D), NaN where missing; categories are numbers. Outputs:

    - `label` (n,): the class of the largest score. Ties go to the first class.
    - `probabilities` float64 (n, K).
    - `scores` float64 (n, K), before temperature and link.
    - `decision` int64 (n,), if `decision` is given: the index of the decided class; -1: none.

    `TreeEnsembleRegressor` compares in float64, so that values that equal a threshold go left as in
    the committee. But the operator returns float32. Hence each leaf value is the sum of a coarse
    and a fine part, and each class has two targets. The sums of the coarse parts are exact, and
    the error of a score is about 2e-12 of the largest score at 400 trees.

    `metadata` is stored as the file's properties. `decision` has one key: "costs", float64 (K, K)
    with one row per true class; or "threshold", float64 (K,), the least probability to decide on
    each class, 0 for classes without a threshold (`Decisions`).

    Raises
    ------
    ConfigurationError
        If the package onnx is not installed.
    DataError
        If a split lists too many categories.
    """
    try:
        import onnx
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "the package onnx is not installed, and the format onnx needs it: install "
            "streamboost[export]"
        ) from error
    graph = _GraphBuilder(onnx)
    X = graph.add_node("Cast", ["X"], to=onnx.TensorProto.DOUBLE)
    scores = graph.add_node("Identity", [_add_scores(graph, X, model)], name="scores")
    _add_label(graph, scores, model.classes)
    probabilities = _add_probabilities(graph, scores, model)
    outputs = ["label", "probabilities", "scores"]
    if decision is not None:
        _add_decision(graph, probabilities, decision)
        outputs.append("decision")
    return graph.serialize(model, outputs, metadata or {})


class _GraphBuilder:
    """Builder of an ONNX graph: collects its nodes and its named constants."""

    def __init__(self, onnx: Any) -> None:
        self.onnx = onnx
        self._nodes: list[Any] = []
        self._constants: dict[str, Any] = {}

    def add_node(
        self,
        operator: str,
        inputs: list[str],
        name: str | None = None,
        domain: str = "",
        **attributes: Any,
    ) -> str:
        """Append a node, and return the name of its output: `name`, or a new name."""
        name = name or f"{operator}_{len(self._nodes)}"
        make = self.onnx.helper.make_node
        self._nodes.append(make(operator, inputs, [name], name, domain=domain, **attributes))
        return name

    def add_constant(self, value: Any) -> str:
        """Add the constant `value`, and return its name."""
        name = f"constant_{len(self._constants)}"
        self._constants[name] = self.onnx.numpy_helper.from_array(np.asarray(value), name)
        return name

    def serialize(self, model: TreeModel, outputs: list[str], metadata: Mapping[str, str]) -> bytes:
        """Return the graph as a serialized ONNX model with these outputs and this metadata."""
        helper, types = self.onnx.helper, self.onnx.TensorProto
        K = len(model.classes)
        described = {
            "label": (_onnx_labels(self.onnx, model.classes).data_type, ["n"]),
            "probabilities": (types.DOUBLE, ["n", K]),
            "scores": (types.DOUBLE, ["n", K]),
            "decision": (types.INT64, ["n"]),
        }
        proto = helper.make_model(
            helper.make_graph(
                self._nodes,
                "committee",
                [helper.make_tensor_value_info("X", types.FLOAT, ["n", model.n_features])],
                [helper.make_tensor_value_info(name, *described[name]) for name in outputs],
                list(self._constants.values()),
            ),
            opset_imports=[helper.make_opsetid("", _AI), helper.make_opsetid("ai.onnx.ml", _ML)],
            ir_version=_IR,
            producer_name="streamboost",
        )
        helper.set_model_props(proto, dict(metadata))
        self.onnx.checker.check_model(proto)
        content: bytes = proto.SerializeToString()
        return content


def _add_scores(graph: _GraphBuilder, X: str, model: TreeModel) -> str:
    """Add nodes for the trees and the base scores; return the name of the scores, (n, K)."""
    K = len(model.classes)
    trees = list(iterate_exported_trees(model.forest))
    parts = graph.add_node(
        "TreeEnsembleRegressor",
        [X],
        domain="ai.onnx.ml",
        n_targets=2 * K,
        aggregate_function="SUM",
        post_transform="NONE",
        **_ensemble_attributes(graph.onnx, trees or [_empty_tree(K)], _step_of_coarse_parts(trees)),
    )
    exact = graph.add_node("Cast", [parts], to=graph.onnx.TensorProto.DOUBLE)
    zero, half, end = (graph.add_constant(np.array([place])) for place in (0, K, 2 * K))
    axis = graph.add_constant(np.array([1]))
    coarse = graph.add_node("Slice", [exact, zero, half, axis])
    fine = graph.add_node("Slice", [exact, half, end, axis])
    base = graph.add_constant(model.base.astype(np.float64))
    return graph.add_node("Add", [graph.add_node("Add", [coarse, fine]), base])


def _empty_tree(n_classes: int) -> ExportedTree:
    """Return a tree of one leaf with zeros, as ONNX has no ensemble without trees."""
    none = np.zeros(0, dtype=np.int64)
    values = np.zeros((1, n_classes), dtype=np.float32)
    return ExportedTree(none, none, none, none, none, {}, none, values)


def _step_of_coarse_parts(trees: list[ExportedTree]) -> float:
    """Return the unit of the coarse parts of leaf values, a power of two.

    Multiples of this unit are added exactly in float32 over all trees."""
    bound = float(sum(np.abs(tree.values.astype(np.float64)).max(initial=0.0) for tree in trees))
    exponent = int(np.frexp(bound)[1]) if bound else 0
    return float(np.ldexp(1.0, exponent - _FLOAT32_BITS))


def _ensemble_attributes(onnx: Any, trees: list[ExportedTree], step: float) -> dict[str, Any]:
    """Return the node and leaf attributes of `TreeEnsembleRegressor`; `step` is the coarse unit."""
    rows: list[tuple[int, int, int, float, str, int, int, int]] = []
    leaves: list[np.ndarray] = []
    values: list[np.ndarray] = []
    for number, tree in enumerate(trees):
        nodes, places = _onnx_nodes_of_tree(tree)
        rows += [(number, *node) for node in nodes]
        leaves.append(np.stack([np.full(len(places), number), places], axis=1))
        exact = tree.values.astype(np.float64)
        coarse = np.rint(exact / step) * step
        values.append(np.concatenate([coarse, exact - coarse], axis=1))
    trees_of, ids, features, splits, modes, true, false, missing = zip(*rows, strict=True)
    weights = np.concatenate(values)
    n_leaves, n_targets = weights.shape
    owners = np.repeat(np.concatenate(leaves), n_targets, axis=0)
    return {
        "nodes_treeids": trees_of,
        "nodes_nodeids": ids,
        "nodes_featureids": features,
        "nodes_values_as_tensor": onnx.numpy_helper.from_array(np.array(splits, dtype=np.float64)),
        "nodes_modes": modes,
        "nodes_truenodeids": true,
        "nodes_falsenodeids": false,
        "nodes_missing_value_tracks_true": missing,
        "target_treeids": owners[:, 0].tolist(),
        "target_nodeids": owners[:, 1].tolist(),
        "target_ids": np.tile(np.arange(n_targets), n_leaves).tolist(),
        "target_weights_as_tensor": onnx.numpy_helper.from_array(weights.ravel()),
    }


def _onnx_nodes_of_tree(
    tree: ExportedTree,
) -> tuple[list[tuple[int, int, float, str, int, int, int]], np.ndarray]:
    """Return the ONNX nodes of a tree, and the ids of its leaves in the order of their indices.

    A node is (id, column, value, mode, id if true, id if false, 1 if missing values are true). A
    split of categories is a chain of equalities, whose first node has the id of the split. The
    leaves have the first ids after the splits.
    """
    n, rows = len(tree), []
    if n == 0:
        return [(0, 0, 0.0, "LEAF", 0, 0, 0)], np.zeros(1, dtype=np.int64)
    free = 2 * n + 1

    def node_id(child: int) -> int:
        return child if child >= 0 else n + ~child

    for node in range(n):
        feature = int(tree.feature[node])
        left, right = node_id(int(tree.left[node])), node_id(int(tree.right[node]))
        if node not in tree.members:
            threshold, missing = float(tree.threshold[node]), int(tree.missing_left[node])
            rows.append((node, feature, threshold, "BRANCH_LEQ", left, right, missing))
            continue
        members = tree.members[node].tolist()
        _require_few_categories(members)
        chain = [node, *range(free, free + len(members) - 1)]
        free += len(chain) - 1
        for one, following, value in zip(
            chain, [*chain[1:], right], members or [-1.0], strict=True
        ):
            rows.append((one, feature, value, "BRANCH_EQ", left, following, 0))
    rows += [(n + leaf, 0, 0.0, "LEAF", 0, 0, 0) for leaf in range(n + 1)]
    return rows, np.arange(n, 2 * n + 1)


def _require_few_categories(members: list[float]) -> None:
    if len(members) > MOST_MEMBERS:
        raise DataError(
            f"a split separates {len(members):,} categories, and in ONNX at most "
            f"{MOST_MEMBERS:,} are supported: export the committee to LightGBM or safetensors"
        )


def _onnx_labels(onnx: Any, classes: np.ndarray) -> Any:
    """Return the class labels as a tensor: text, whole numbers, float64 or booleans."""
    kinds: dict[str, type] = {"i": np.int64, "u": np.int64, "f": np.float64, "b": np.bool_}
    kind = kinds.get(classes.dtype.kind)
    values = classes.astype(str).astype(object) if kind is None else classes.astype(kind)
    return onnx.numpy_helper.from_array(values)


def _add_label(graph: _GraphBuilder, scores: str, classes: np.ndarray) -> None:
    tensor = _onnx_labels(graph.onnx, classes)
    labels = graph.add_node("Constant", [], value=tensor)
    best = graph.add_node("ArgMax", [scores], axis=1, keepdims=0)
    graph.add_node("Gather", [labels, best], name="label", axis=0)


def _add_probabilities(graph: _GraphBuilder, scores: str, model: TreeModel) -> str:
    """Add the nodes of the link, as in `streamboost.boosting.links`; return the output's name."""
    logits = graph.add_node("Div", [scores, graph.add_constant(np.float64(model.temperature))])
    if model.link == "sigmoid":
        logits = _add_log_sigmoid(graph, logits)
    if model.calibration != 1.0:
        logits = graph.add_node("Div", [logits, graph.add_constant(np.float64(model.calibration))])
    return graph.add_node("Softmax", [logits], name="probabilities", axis=1)


def _add_log_sigmoid(graph: _GraphBuilder, logits: str) -> str:
    """Add nodes for the log of the sigmoid of `logits`, and return the output's name.

    The formula is min(x, 0) - log(1 + exp(-|x|)), as ONNX Runtime has no Softplus of float64.
    """
    least = graph.add_node("Min", [logits, graph.add_constant(np.float64(0.0))])
    small = graph.add_node("Exp", [graph.add_node("Neg", [graph.add_node("Abs", [logits])])])
    rest = graph.add_node(
        "Log", [graph.add_node("Add", [small, graph.add_constant(np.float64(1.0))])]
    )
    return graph.add_node("Sub", [least, rest])


def _add_decision(graph: _GraphBuilder, P: str, decision: Mapping[str, np.ndarray]) -> None:
    """Add nodes for the index of the decided class, as in `streamboost.evaluation.decisions`."""
    zero = graph.add_constant(np.float64(0.0))
    possible = graph.add_node("Greater", [P, zero])
    if "costs" in decision:
        cost = graph.add_node("MatMul", [P, graph.add_constant(decision["costs"])])
        expected = graph.add_node("Where", [possible, cost, graph.add_constant(np.float64(np.inf))])
        least = graph.add_node("ReduceMin", [expected], axes=[1], keepdims=1)
        bound = graph.add_node("Mul", [least, graph.add_constant(np.float64(1.0 + 1e-9))])
        chosen = graph.add_node("And", [possible, graph.add_node("LessOrEqual", [expected, bound])])
    else:
        cut = decision["threshold"]
        reached = graph.add_node("LessOrEqual", [graph.add_constant(cut), P])
        among = graph.add_node("And", [possible, reached])
        sure = graph.add_node("And", [among, graph.add_constant(cut > 0.0)])
        unsure = graph.add_node("Not", [_add_row_any(graph, sure)])
        chosen = graph.add_node("And", [among, graph.add_node("Or", [sure, unsure])])
    ranked = graph.add_node("Where", [chosen, P, graph.add_constant(np.float64(-1.0))])
    best = graph.add_node("ArgMax", [ranked], axis=1, keepdims=0)
    none = graph.add_constant(np.int64(-1))
    is_any = graph.add_node(
        "Squeeze", [_add_row_any(graph, chosen), graph.add_constant(np.array([1]))]
    )
    graph.add_node("Where", [is_any, best, none], name="decision")


def _add_row_any(graph: _GraphBuilder, mask: str) -> str:
    """Add nodes that test each row of `mask` (n, K) for True; return the output's name, (n, 1)."""
    numbers = graph.add_node("Cast", [mask], to=graph.onnx.TensorProto.INT64)
    most = graph.add_node("ReduceMax", [numbers], axes=[1], keepdims=1)
    return graph.add_node("Cast", [most], to=graph.onnx.TensorProto.BOOL)
