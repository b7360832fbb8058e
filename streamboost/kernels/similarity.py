"""Localized similarities (Appel, 2017): functions of a row's distances to one or two points."""

import numpy as np

from streamboost.kernels.jit import kernel


@kernel
def _one_point_similarity(squared_distance, squared_radius):
    """Return the similarity of a row to one point: (r - d) / (r + d), or 1 if r is infinite.

    d is `squared_distance`, that of the row to the point, and r is `squared_radius`.
    """
    if squared_radius == np.inf:
        return 1.0
    return (squared_radius - squared_distance) / (squared_radius + squared_distance)


@kernel
def _two_point_similarity(squared_to_first, squared_to_second, squared_gap):
    """Return the similarity of a row x to two points: 1 at the first, -1 at the second point.

    `squared_to_first` and `squared_to_second` are the squared distances of x to the points, and
    `squared_gap` is that between the points. Let d be half the vector from the second point to the
    first, and m the midpoint. The value is 4 |d|^2 <d, x - m> / (3 |d|^4 + |x - m|^4). It is 0 at
    the midpoint, tends to 0 far away, and is always within [-1, 1].
    """
    along = (squared_to_second - squared_to_first) / squared_gap  # <d, x - m> / |d|^2
    away = max(
        2.0 * (squared_to_first + squared_to_second) / squared_gap - 1.0, 0.0
    )  # |x - m|^2 / |d|^2
    return 4.0 * along / (3.0 + away * away)


@kernel
def _squared_distance_between(first_point, second_point):
    total = 0.0
    for k in range(first_point.size):
        d = np.float64(first_point[k]) - np.float64(second_point[k])
        total += d * d
    return total


@kernel
def squared_distances(points, point_index, distances):
    """Write the squared distance of each of `points` (n, D) to the point at `point_index`, (n,)."""
    for i in range(points.shape[0]):
        distances[i] = _squared_distance_between(points[i], points[point_index])


@kernel
def evaluate_similarity(
    squared_to_first, squared_to_second, reach, gradients, hessians, values, slope, curvature
):
    """Write the values of a candidate similarity at all points, and the loss's derivatives.

    `squared_to_first` and `squared_to_second` float64 (n,) are the squared distances to the first
    and to the second point. `squared_to_second` is empty for a one-point learner. `reach` is as in
    `add_similarities`. `gradients` and `hessians` float64 (n, K) are the gradients and Hessians of
    the points. The similarity f of each point is written to `values` float64 (n,). The derivatives
    by each class's coefficient are the sum of f times the gradients, `slope` (K,), and the sum of
    f^2 times the Hessians, `curvature` (K,).
    """
    slope[:] = 0.0
    curvature[:] = 0.0
    for i in range(squared_to_first.size):
        f = (
            _two_point_similarity(squared_to_first[i], squared_to_second[i], reach)
            if squared_to_second.size
            else _one_point_similarity(squared_to_first[i], reach)
        )
        values[i] = f
        for k in range(slope.size):
            slope[k] += f * gradients[i, k]
            curvature[k] += f * f * hessians[i, k]


@kernel
def add_similarities(points, pairs, reach, coefficients, X, scores, start, stop):
    """Add the values of the similarities `start` to `stop` - 1, times coefficients, to `scores`.

    Arguments: `points` float32 (P, D); `pairs` int32 (learners, 2), the indices of each learner's
    points, the second -1 if there is one point; `reach` float64 (learners,), the squared distance
    from one point at which the similarity is 0, or the squared distance of two points;
    `coefficients` float64 (learners, K); `X` float32 (n, D), no NaN; `scores` float64 (n, K).
    """
    for i in range(X.shape[0]):
        for m in range(start, stop):
            first, second = pairs[m, 0], pairs[m, 1]
            near = _squared_distance_between(X[i], points[first])
            if second < 0:
                f = _one_point_similarity(near, reach[m])
            else:
                f = _two_point_similarity(
                    near, _squared_distance_between(X[i], points[second]), reach[m]
                )
            for k in range(scores.shape[1]):
                scores[i, k] += f * coefficients[m, k]
