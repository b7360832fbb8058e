"""River models for the pipeline files in this folder, one function each."""

from river import (
    base,
    compose,
    feature_extraction,
    linear_model,
    naive_bayes,
    preprocessing,
    stats,
    tree,
)


def hoeffding() -> base.Classifier:
    """Return a tree that grows with the stream."""
    return tree.HoeffdingTreeClassifier(grace_period=50)


def bayes() -> base.Classifier:
    """Return naive Bayes."""
    return naive_bayes.GaussianNB()


def softmax() -> base.Classifier:
    """Return a linear model of scaled features."""
    return compose.Pipeline(preprocessing.StandardScaler(), linear_model.SoftmaxRegression())


def risks() -> base.Transformer:
    """Return a transformer that adds phishing rates of similar sites (target encoding)."""
    prior = stats.BayesianMean(prior=0.5, prior_weight=5)
    return (
        compose.FuncTransformer(dict)
        + feature_extraction.TargetAgg(["https", "age_of_domain"], prior)
        + feature_extraction.TargetAgg(["anchor_from_other_domain", "is_popular"], prior)
    )
