"""A class of 10 records in 40,000 does not raise the errors on other classes, in any family."""

import families
import numpy as np
import pytest
from sklearn.base import clone

N_RECORDS = 40_000


def rows(seed, n_classes):
    """Return distinct rows, their labels, and the number of records with each row and label.

    Two columns hold multiples of 0.2, so that each value has its own bin. One record in fifty has a
    wrong class. 10 records of the last class are in a corner.
    """
    rng = np.random.default_rng(seed)
    X = np.rint(5 * rng.standard_normal((N_RECORDS, 2))) / 5
    y = np.zeros(N_RECORDS)
    if n_classes > 2:
        y[X[:, 0] + 0.5 * X[:, 1] > 0.8] = 1
        y[X[:, 0] - X[:, 1] > 2] = 2
        y[rng.random(N_RECORDS) < 0.02] = 0
    y[:10] = n_classes - 1
    X[:10] = 5.0
    found, counts = np.unique(np.column_stack([X, y]), axis=0, return_counts=True)
    return found[:, :2].astype(np.float32), found[:, 2].astype(int), counts


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("model", families.others_slow(families.TREES), ids=str)
@pytest.mark.quick_once
def test_errors_stay_under_the_commonest_classs(model, n_classes):
    if n_classes > 2 and families.two_classes_only(model):
        pytest.skip("it knows two classes")
    X, y, n_records = rows(0, n_classes)
    X_test, y_test, n_test = rows(1, n_classes)
    model = clone(model).set_params(n_estimators=300, random_state=0)
    model.fit(X, y, sample_weight=n_records)
    for part, labels, counts in ((X, y, n_records), (X_test, y_test, n_test)):
        stages = list(model.staged_predict(part))
        for rounds in (30, 100, 300):
            wrong = stages[min(rounds, len(stages)) - 1] != labels
            assert counts[wrong].sum() < counts[labels > 0].sum()
