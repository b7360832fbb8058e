"""A River model with delayed labels, categorical text, and prediction sets with coverage."""

from river import datasets, metrics, stream

from streamboost.adapters.river import StreamBoostClassifier


def described(x):
    """Return a record with a category among its numbers."""
    return {**x, "tone": "dark" if x["intensity-mean"] < 20 else "bright"}


model = StreamBoostClassifier(coverage=0.9, seed=7)
accuracy = metrics.Accuracy()
predicted, known, sizes, held = {}, set(), [], []
records = ((described(x), y) for x, y in datasets.ImageSegments().take(1500))
for place, x, y in stream.simulate_qa(records, moment=None, delay=20):
    if y is None:  # the record arrives
        predicted[place] = (model.predict_one(x), model.predict_set_one(x), known.copy())
    else:  # its label does, 20 records later
        best, labels, named = predicted.pop(place)
        accuracy.update(y, best)
        sizes.append(len(labels))
        held.append((y if y in named else None) in labels)  # None: a label not learned before
        known.add(y)
        model.learn_one(x, y)
print(accuracy)
print(f"labels in a set: {sum(sizes) / len(sizes):.2f}")
print(f"sets that hold the true one: {sum(held) / len(held):.1%}")
