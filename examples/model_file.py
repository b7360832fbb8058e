"""Train on arrays, save and load the committee, and continue training the estimator."""

import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from streamboost import Committee, SketchLogitBoostClassifier

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

model = SketchLogitBoostClassifier(n_estimators=100, random_state=0).fit(X_train, y_train)
print(f"after {model.committee_.n_rounds} rounds: {model.score(X_test, y_test):.1%}")

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "digits.committee"
    model.committee_.save(path)
    committee = Committee.load(path)
scores = committee.class_scores(X_test)
print(f"the loaded one agrees: {np.array_equal(scores, model.decision_function(X_test))}")

model.extend(X_train, y_train, n_estimators=100)
print(f"after {model.committee_.n_rounds} rounds: {model.score(X_test, y_test):.1%}")
