"""Slow reference of trees like `naive.py`, for categorical features: a split is a set of codes."""

from itertools import combinations

import naive
import numpy as np


def newton_keys(g, h):
    """G / H of each category."""
    return lambda groups: [g[rows].sum() / h[rows].sum() for rows in groups]


def leading_keys(profiles_of, mass_of):
    """Project the categories' profiles on their leading direction, found by power steps."""

    def keys(groups):
        profile = np.array([profiles_of(rows) for rows in groups])
        mass = np.array([mass_of(rows) for rows in groups])
        if mass_of is not one:
            profile = profile - mass @ profile / mass.sum()
        direction = profile[np.argmax(mass * (profile**2).sum(axis=1))]
        for _ in range(8):
            step = profile.T @ (mass * (profile @ direction))
            if not step.any():
                break
            direction = step / np.abs(step).max()
        return profile @ direction

    return keys


def one(rows):
    return 1.0


def share_keys(w, y, n_classes):
    """For the Gini criterion: the class shares."""

    def shares(rows):
        S = np.bincount(y[rows], weights=w[rows], minlength=n_classes)
        return S / S.sum()

    return leading_keys(shares, lambda rows: w[rows].sum())


def ordered_sets(codes, n_bins, f, rows, keys_of):
    """The prefixes of the categories' order, the whole set last."""
    present = sorted({int(codes[f, r]) for r in rows} - {int(n_bins[f])})
    if not present:
        return
    groups = [[r for r in rows if codes[f, r] == c] for c in present]
    order = [c for _, c in sorted(zip(keys_of(groups), present, strict=True))]
    yield from (set(order[: i + 1]) for i in range(len(order)))


def all_sets(codes, n_bins, f, rows, keys_of):
    """Every set of categories: what the best of the prefixes must not fall behind."""
    present = sorted({int(codes[f, r]) for r in rows} - {int(n_bins[f])})
    for size in range(1, len(present) + 1):
        yield from map(set, combinations(present, size))


def best_split(node, codes, n_bins, categorical, score, keys_of, weight_of, least, bins_to_codes):
    whole = best = score(node.rows)
    for f in range(len(codes)):
        missing = {int(n_bins[f])}
        if categorical[f]:
            sets = list(bins_to_codes(codes, n_bins, f, node.rows, keys_of))
        else:
            sets = [set(range(code + 1)) for code in range(n_bins[f])]
        has_missing = bool((codes[f] == n_bins[f]).any())
        for side in (set(), missing) if has_missing else (set(),):
            for chosen in sets:
                left = [r for r in node.rows if codes[f, r] in chosen | side]
                right = [r for r in node.rows if codes[f, r] not in chosen | side]
                if min(weight_of(left), weight_of(right)) < max(least, 1e-300):
                    continue
                total = score(left) + score(right)
                if total > best + abs(best) * 1e-12:
                    best = total
                    node.gain, node.split = total - whole, (f, chosen | side)


def grow(
    codes, n_bins, categorical, score, keys_of, weight_of, max_leaf_nodes, least=0.0,
    bins_to_codes=ordered_sets,
):  # fmt: skip
    """Grow a tree best leaf first, as naive.grow does; return its root."""
    rules = codes, n_bins, categorical, score, keys_of, weight_of, least, bins_to_codes
    root = naive.Node(list(range(codes.shape[1])))
    best_split(root, *rules)
    leaves = [root]
    while len(leaves) < max_leaf_nodes:
        open_ = [leaf for leaf in leaves if leaf.split]
        if not open_:
            break
        node = max(open_, key=lambda leaf: leaf.gain)
        f, chosen = node.split
        for side in (True, False):
            child = naive.Node([r for r in node.rows if (codes[f, r] in chosen) is side])
            best_split(child, *rules)
            node.children.append(child)
        leaves.remove(node)
        leaves += node.children
    return root


def leaf_of(forest, root, x):
    """Walk one record with its raw categories down one tree, node by node."""
    table = forest.category_codes
    at = int(root)
    while at >= 0:
        node, row = forest.nodes[at], forest.set_of[at]
        v = x[node["feature"]]
        if row < 0:
            left = node["missing_left"] if np.isnan(v) else v <= node["threshold"]
        else:
            i = list(table.features).index(node["feature"])
            known = range(table.start[i], table.start[i + 1])
            code = next((int(table.codes[k]) for k in known if table.values[k] == v), 0)
            left = forest.sets[row, code // 8] >> (code % 8) & 1
        at = int(node["left"] if left else node["right"])
    return ~at


def forest_scores(committee, X):
    """F(x), row by row and tree by tree."""
    forest = committee.learners
    out = np.tile(committee.base, (len(X), 1))
    for i, x in enumerate(X):
        for root in forest.roots:
            out[i] += forest.values[leaf_of(forest, root, x)]
    return out
