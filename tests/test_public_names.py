"""The public API as an explicit list, so that each change is a decision."""

import ast
import importlib
import inspect
from pathlib import Path

import pytest

import streamboost

PUBLIC = [
    "ABCLogitBoostClassifier",
    "AOSOLogitBoostClassifier",
    "AdaBoostAClassifier",
    "AdaBoostCostClassifier",
    "AdaBoostM1Classifier",
    "AdaBoostMHClassifier",
    "CDMCBoostClassifier",
    "Cascade",
    "Committee",
    "Evaluation",
    "GDMCBoostClassifier",
    "GambleClassifier",
    "GentleAdaBoostClassifier",
    "KLogitBoostClassifier",
    "LogitBoostClassifier",
    "OneVsAllAdaBoostClassifier",
    "QueryConfig",
    "RebelClassifier",
    "SammeClassifier",
    "Schedule",
    "SketchLogitBoostClassifier",
    "StreamLearner",
    "WorkingSet",
    "learn_from_pool",
]


def test_the_list_is_what_the_package_offers():
    assert sorted(streamboost.__all__) == PUBLIC
    assert set(PUBLIC) <= set(dir(streamboost))


def test_type_checkers_know_every_public_name():
    tree = ast.parse(Path(streamboost.__file__).read_text())
    (known,) = [node for node in tree.body if isinstance(node, ast.If)]
    names = {alias.asname for node in known.body for alias in node.names}
    assert names == set(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_loads_and_is_documented(name):
    thing = getattr(streamboost, name)
    assert inspect.getdoc(thing)
    assert thing.__module__.startswith("streamboost.")


def test_other_names_are_refused():
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        streamboost.Nonsense  # noqa: B018


def test_the_river_adapter_stands_in_its_own_module():
    module = importlib.import_module("streamboost.adapters.river")
    assert inspect.getdoc(module.StreamBoostClassifier)
