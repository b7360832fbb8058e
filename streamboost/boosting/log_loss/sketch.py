"""SketchLogitBoost: multi-class log-loss boosting, each tree split along one random K-vector."""

from dataclasses import dataclass

from streamboost.boosting.log_loss.parameters import LogLossClassifier
from streamboost.boosting.log_loss.sketch_trainer import SketchLogitBoost


@dataclass(kw_only=True, eq=False, repr=False)
class SketchLogitBoostClassifier(SketchLogitBoost, LogLossClassifier):  # type: ignore[misc]
    """Multi-class LogitBoost with one tree per round, split along a random direction u.

    Each round draws u, a centred vector over the classes. The tree's splits maximise the Newton
    gain of the log loss along u (negative gradient u_y - u.p, Hessian sum u_k^2 p_k - (u.p)^2, for
    a row of class y with probabilities p). Each leaf has the diagonal Newton step in all K classes,
    centred and clamped to ±4. One histogram is sufficient for any number of classes. Sketching the
    class gradients was introduced by SketchBoost (Iosipoi and Vakhrushev, 2022); the single Newton
    direction and the leaf are new.

    Parameters
    ----------
    learning_rate
        Learning rate: factor of each leaf value, in (0, 1]. None: 0.07 √(400 / n_estimators), at
        most 0.2. This is 0.07 for 400 rounds, and higher for fewer rounds. `extend` uses the same
        rate as `fit`, for any number of added rounds.
    max_leaf_nodes
        Largest number of leaves of a tree, which is grown best-first. None: one leaf for every 50
        rows, at least 31 and at most 80, or five per class (up to 250) if that is more. On few
        rows, small trees are as accurate and are grown faster. On many rows, 8 leaves with a
        learning rate of 0.2 can be more accurate if class scores are sums over single features.
    max_depth
        Largest number of splits above a leaf. None: no bound.
    max_bins
        Bins per numeric feature, at most 255, without the bin of missing values. None: one for
        every 125 rows, at least 64.
    min_child_weight
        Least sum of Hessians (along u) in a child. With a few hundred labels use 0.01 to 0.03.
    max_features
        Share of the features that are available to a tree. None: all features if D is at most 20,
        else 4 √D features, and at least a fifth.
    categorical_features
        Categorical columns: ``"from_dtype"``, the columns of a frame with a categorical type; a
        mask (D,), indices, or column names; or None for no column. In arrays, categories are whole
        numbers from 0. A split sends a set of categories left. Categories absent from the training
        data are missing values, and beyond 254 categories the rare ones share a bin. See
        `streamboost.boosting.categorical`.
    n_jobs
        Number of threads for scoring. Training uses as many threads if each has at least 100,000
        rows; with fewer rows, the synchronization of the threads takes longer than a round. The
        results do not depend on `n_jobs`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from streamboost import SketchLogitBoostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SketchLogitBoostClassifier(n_estimators=50, random_state=0).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.9
    True
    """
