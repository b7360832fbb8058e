"""River's models for the pipeline beside this file, one function each."""

from river import base, compose, linear_model, naive_bayes, preprocessing, tree


def hoeffding() -> base.Classifier:
    """Return a tree that grows with the stream."""
    return tree.HoeffdingTreeClassifier(grace_period=50)


def bayes() -> base.Classifier:
    """Return naive Bayes."""
    return naive_bayes.GaussianNB()


def softmax() -> base.Classifier:
    """Return a linear model of scaled features."""
    return compose.Pipeline(preprocessing.StandardScaler(), linear_model.SoftmaxRegression())
