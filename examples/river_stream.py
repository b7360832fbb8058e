"""A streamboost classifier in River: predict each record, then learn its label."""

from river import datasets, metrics

from streamboost.adapters.river import StreamBoostClassifier

model = StreamBoostClassifier(seed=7)
accuracy = metrics.Accuracy()
for x, y in datasets.ImageSegments().take(1000):
    accuracy.update(y, model.predict_one(x))  # None before the first label counts as wrong
    model.learn_one(x, y)
print(accuracy)
