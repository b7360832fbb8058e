"""QuickBoost: grows one tree, and prunes features that cannot have the best split.

The histogram of a feature is first built on the heaviest rows of a node. The error of these rows
under the feature's best split can only rise with more rows (Appel, 2017, proposition 3.2 and
appendix 7.2). Hence a feature is pruned if this error exceeds the best error on all rows.

The error of a row is its largest possible score, in a leaf without other rows, less its actual
score. This error is not negative. The error of a split is the sum over its rows at the best
predictions of the leaves, as the proposition requires. For a row with gradient g and Hessian h, the
error is h (g / h - f)^2 at the leaf value f, the weighted variance of the appendix. The largest
score of the row is g^2 / h. The tree is identical to the tree of `growing.grow.grow_tree`.
"""

from typing import Any, NamedTuple

import numpy as np

from streamboost.kernels.growing.criteria import (
    NEWTON,
    NEWTON_SUMS,
    TIE,
    child_score,
    child_weight,
    has_gradient_hessian_bins,
)
from streamboost.kernels.growing.grow import allocate_workspace
from streamboost.kernels.growing.histograms import (
    FeatureSubset,
    HistogramInputArrays,
    add_input_to_histogram,
    add_packed_gradients_to_histogram,
)
from streamboost.kernels.growing.nodes import (
    CODES,
    leaf_with_best_split,
    make_leaf,
    partition_rows,
    split_node,
)
from streamboost.kernels.growing.splits import best_split_of_feature, find_best_split
from streamboost.kernels.jit import inner_kernel, kernel

_FIRST = 0.9  # share of a node's weight on which the histograms of all features are built
_STEPS = 20  # number of equal parts of the remaining weight
_ABOVE = 1.0 + 1e-6  # factor that exceeds the relative rounding error of any sum of rows
_LOW = np.int64(0xFFFFFFFF)


class _SplitSearchWorkspace(NamedTuple):
    """Arrays for finding the best split of a node, if d features are available."""

    sums: np.ndarray  # TREE_PARAMS (1,): the tree's limits, for sums that are not packed
    bins: np.ndarray  # int64 (2 x codes,): unpacked sums of a packed feature
    ends: np.ndarray  # int64 (parts,): end of each part of a node's rows
    totals: np.ndarray  # float64 (parts, sums): cumulated sums of the rows
    rest: np.ndarray  # float64 (parts,): upper bound of the score of the remaining rows
    bound: np.ndarray  # float64 (d,): upper bound of the score of a feature's best split
    finished: np.ndarray  # bool (d,): whether the histogram has all rows
    places: np.ndarray  # int64 (d,): indices of the features that may have the best split
    some: FeatureSubset  # columns of these features
    room: Any  # workspace of `growing.grow.grow_tree`, to find a split and partition the rows


@inner_kernel
def _add_row_to_sums(row, histogram_input, params, sums):
    values, channel, width = histogram_input.values, histogram_input.channel, sums.size
    if channel.size:
        sums[channel[row]] += values[row]
    elif params.kind == NEWTON:
        sums[0] += values[row] >> 32
        sums[1] += values[row] & _LOW
    else:
        for k in range(width):
            sums[k] += values[row * np.uint64(width) + np.uint64(k)]


@inner_kernel
def _divide_rows_into_parts(
    rows_by_score, start, stop, max_scores, histogram_input, params, min_rows, workspace
):
    """Divide a node's rows, in descending order of `max_scores`, into parts.

    After each part is added to the histograms, a split search may prune features. Writes to the
    workspace, for each part: its end, the sums of all rows up to the end, and an upper bound of the
    score of the rows after it. Returns the number of parts. Each part has at least `min_rows` rows,
    as a split search takes time; a node with fewer rows is one part.
    """
    ends, totals, rest = workspace.ends, workspace.totals, workspace.rest
    whole = 0.0
    for i in range(start, stop):
        whole += max_scores[rows_by_score[i]]
    for k in range(totals.shape[1]):
        totals[0, k] = 0.0
    n_parts, begin, before, so_far, wanted = 0, start, 0.0, 0.0, _FIRST * whole
    for i in range(start, stop):
        _add_row_to_sums(rows_by_score[i], histogram_input, params, totals[n_parts])
        so_far += max_scores[rows_by_score[i]]
        enough = (
            before + so_far >= wanted and i + 1 - begin >= min_rows and stop - i - 1 >= min_rows
        )
        if (enough and n_parts + 1 < ends.size) or i + 1 == stop:
            ends[n_parts], rest[n_parts] = i + 1, so_far
            n_parts += 1
            if i + 1 < stop:
                for k in range(totals.shape[1]):
                    totals[n_parts, k] = totals[n_parts - 1, k]
            before += so_far
            begin, so_far, wanted = i + 1, 0.0, before + (1.0 - _FIRST) / _STEPS * whole
    # Summed from the end, as small terms would be lost to rounding after large ones.
    behind = 0.0
    for part in range(n_parts - 1, -1, -1):
        behind, rest[part] = behind + rest[part], behind * _ABOVE
    return n_parts


@inner_kernel
def _add_rows_to_histograms(
    hist, columns, first_feature, end_feature, rows_by_score, start, stop, histogram_input, params
):
    """Add rows to the histograms of the features from `first_feature` to `end_feature`."""
    codes, features, first = (
        columns.codes,
        columns.features[first_feature:end_feature],
        columns.first[first_feature:end_feature],
    )
    if params.kind == NEWTON:
        add_packed_gradients_to_histogram(
            hist, codes, features, first, rows_by_score, start, stop, histogram_input.values
        )
    else:
        add_input_to_histogram(
            hist,
            codes,
            features,
            first,
            rows_by_score,
            start,
            stop,
            histogram_input,
            params.channels,
        )


@inner_kernel
def _best_split_score(hist, columns, feature, params, min_weight, node_sums, min_score, workspace):
    """Return the score of a feature's best split whose children each have at least `min_weight`."""
    first, n_bins, missing = (
        np.int64(columns.first[feature]),
        columns.n_bins[feature],
        columns.missing[feature],
    )
    if params.kind == NEWTON:
        for b in range(n_bins + missing):
            packed = hist[first + b]
            workspace.bins[2 * b], workspace.bins[2 * b + 1] = packed >> 32, packed & _LOW
        hist, first = workspace.bins, np.int64(0)
    left, right = workspace.room.left, workspace.room.right
    worth, _, _ = best_split_of_feature(
        hist,
        first,
        n_bins,
        missing,
        workspace.sums[0],
        min_weight,
        node_sums,
        node_sums,
        min_score,
        left,
        right,
    )
    return worth


@inner_kernel
def _feature_score_bound(hist, columns, feature, params, part, workspace):
    """Return an upper bound of the score of a feature's best split, from the rows up to `part`.

    `part` is the index of a part of the node's rows (`_divide_rows_into_parts`). The bound is the
    score of the best split of the rows up to this part, plus the bound of the remaining rows.
    Children may have any weight here: with a least weight, the score of few rows would not give an
    upper bound.
    """
    total = workspace.totals[part]
    worth = _best_split_score(
        hist, columns, feature, params, 0.0, total, child_score(total, workspace.sums[0]), workspace
    )
    return workspace.rest[part] + worth


@kernel
def _complete_histograms(
    node,
    columns,
    rows_by_score,
    histogram_input,
    params,
    hist,
    n_parts,
    node_score,
    tolerance,
    workspace,
):
    """Build complete histograms of the features that can have the best split; skip the others.

    `n_parts` is the number of parts of the node's rows, `node_score` the score of the node without
    a split, and `tolerance` the relative difference from the best score up to which a feature is
    kept. Returns the score of the best split, and the number of additions to histograms.
    """
    ends, bound, total, d = (
        workspace.ends,
        workspace.bound,
        workspace.totals[n_parts - 1],
        columns.features.size,
    )
    hist[:] = 0
    _add_rows_to_histograms(
        hist, columns, 0, d, rows_by_score, node.start, ends[0], histogram_input, params
    )
    for j in range(d):
        bound[j] = _feature_score_bound(hist, columns, j, params, 0, workspace)
    adds = d * (ends[0] - node.start)
    best = node_score
    workspace.finished[:] = False
    for j in np.argsort(-bound, kind="mergesort"):
        part = 1
        while part < n_parts and bound[j] >= best - abs(best) * tolerance:
            start, stop = ends[part - 1], ends[part]
            _add_rows_to_histograms(
                hist, columns, j, j + 1, rows_by_score, start, stop, histogram_input, params
            )
            adds += stop - start
            if part + 1 < n_parts:
                bound[j] = _feature_score_bound(hist, columns, j, params, part, workspace)
            part += 1
        if part == n_parts:
            workspace.finished[j] = True
            bound[j] = _best_split_score(
                hist, columns, j, params, params.min_child, total, node_score, workspace
            )
            best = max(best, bound[j])
    return best, adds


@inner_kernel
def _write_best_split(node, hist, columns, params, totals, min_score, workspace):
    """Write the best split to `node`, among features with complete histograms.

    Features whose score is below `min_score` are ignored. Writes nothing if no feature is left.
    """
    places, some, n = workspace.places, workspace.some, 0
    for j in range(columns.features.size):
        if workspace.finished[j] and workspace.bound[j] >= min_score:
            places[n], some.features[n] = j, columns.features[j]
            some.n_bins[n], some.missing[n] = columns.n_bins[j], columns.missing[j]
            some.first[n] = columns.first[j] - columns.first[places[0]]
            n += 1
    if n == 0:
        return
    these = FeatureSubset(
        columns.codes,
        some.features[:n],
        some.first[:n],
        some.n_bins[:n],
        some.missing[:n],
        some.categorical[:n],
    )
    begin = np.int64(columns.first[places[0]]) * params.channels
    find_best_split(node, hist[begin:], these, params, totals, workspace.room)
    if node.gain > 0.0:
        node.feature = places[node.feature]


@kernel
def _find_split_of_node(
    node, columns, rows_by_score, max_scores, histogram_input, params, hist, workspace
):
    """Find the best split of a node and write it to `node`; return the additions to histograms."""
    least = hist.size // (2 * columns.features.size)
    n_parts = _divide_rows_into_parts(
        rows_by_score, node.start, node.stop, max_scores, histogram_input, params, least, workspace
    )
    if n_parts == 0:
        return 0
    total = workspace.totals[n_parts - 1]
    if child_weight(total, workspace.sums[0]) < 2 * params.min_child:
        return 0
    whole = child_score(total, workspace.sums[0])
    # Features within this margin of the best are kept, as they could decide near ties: each
    # candidate may change the best by up to a tie, and Newton's score is a difference.
    slack = (TIE - 1.0) * (hist.size // params.channels * 2 + 16)
    if params.kind == NEWTON or params.kind == NEWTON_SUMS:
        slack += 1e-7
    best, adds = _complete_histograms(
        node,
        columns,
        rows_by_score,
        histogram_input,
        params,
        hist,
        n_parts,
        whole,
        slack,
        workspace,
    )
    _write_best_split(
        node, hist, columns, params, histogram_input.totals, best - abs(best) * slack, workspace
    )
    return adds


@kernel
def _allocate_node_workspace(columns, sum_params, params, n_bins, n_rows):
    d, n, n_splits = columns.features.size, sum_params[0].channels, 0
    if params.kind == NEWTON or has_gradient_hessian_bins(params):
        n_splits = 2 * n_bins
    return _SplitSearchWorkspace(
        sum_params,
        np.empty(2 * CODES, np.int64),
        np.empty(_STEPS + 2, np.int64),
        np.empty((_STEPS + 2, n)),
        np.empty(_STEPS + 2),
        np.empty(d),
        np.empty(d, np.bool_),
        np.empty(d, np.int64),
        FeatureSubset(
            columns.codes,
            columns.features.copy(),
            columns.first.copy(),
            columns.n_bins.copy(),
            columns.missing.copy(),
            columns.categorical,
        ),
        allocate_workspace(n, 0, n_splits, d, n_rows, 0),
    )


@kernel
def grow_tree_with_pruning(
    codes, features, offsets, n_bins, missing, rows, rows_by_score, unsampled, max_scores, values,
    channel, params, hist, nodes,
):  # fmt: skip
    """Grow one tree as `grow.grow_tree` does, and skip features that cannot have the best split.

    Arguments are those of `grow.grow_tree`. In addition: `unsampled` are its `unsampled_rows`;
    `max_scores` float64 (n,), the largest score that each row can add to a leaf, not negative and
    finite; `rows_by_score` uint32, the rows of `rows` in descending order of `max_scores`; `hist`
    int64 (bins x channels,), of any content. Returns the number of nodes, and of additions to
    histograms.
    """
    make_leaf(nodes, 0, 0, 0, rows.size, 0, unsampled.size)
    if features.size == 0:
        return 1, 0
    lim = params[0]
    columns = FeatureSubset(
        codes, features, offsets, n_bins, missing, np.zeros(features.size, np.bool_)
    )
    histogram_input = HistogramInputArrays(values, channel, np.empty(0))
    apart = params.copy()
    if lim.kind == NEWTON:
        apart[0].kind, apart[0].channels = NEWTON_SUMS, 2
    workspace = _allocate_node_workspace(
        columns, apart, lim, hist.size, max(rows.size, unsampled.size)
    )
    n_adds = _find_split_of_node(
        nodes[0], columns, rows_by_score, max_scores, histogram_input, lim, hist, workspace
    )
    n_nodes, n_leaves = 1, 1
    while n_leaves < lim.max_leaf_nodes:
        i = leaf_with_best_split(nodes, n_nodes)
        if i < 0:
            break
        node = nodes[i]
        split_node(nodes, i, n_nodes, columns, rows, unsampled, workspace.room)
        column = codes[features[node.feature]]
        partition_rows(
            rows_by_score, node.start, node.stop, column, workspace.room.side, workspace.room.buffer
        )
        n_nodes += 2
        n_leaves += 1
        if n_leaves == lim.max_leaf_nodes or node.depth + 1 >= lim.max_depth:
            continue
        for child in (n_nodes - 2, n_nodes - 1):
            n_adds += _find_split_of_node(
                nodes[child],
                columns,
                rows_by_score,
                max_scores,
                histogram_input,
                lim,
                hist,
                workspace,
            )
    return n_nodes, n_adds
