"""Independence of the boosting families: none imports another, shared code is in `boosting`."""

import ast
import inspect
from pathlib import Path

import families
import pytest
from griffe import Docstring, DocstringSectionKind

from streamboost import boosting

FOLDER = Path(boosting.__file__).parent
FAMILIES = sorted(path.parent.name for path in FOLDER.glob("*/__init__.py"))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_imports_no_other_and_boosting_imports_none(family):
    for path in FOLDER.rglob("*.py"):
        if path.parent.name == family:
            continue
        imported = {
            node.module for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ImportFrom)
        }  # fmt: skip
        inside = f"streamboost.boosting.{family}"
        assert not {name for name in imported if (name or "").startswith(inside)}, path


def test_there_are_families():
    assert len(FAMILIES) == 3


@pytest.mark.parametrize("estimator", families.ESTIMATORS)
def test_every_parameter_and_attribute_is_described(estimator):
    sections = Docstring(inspect.getdoc(estimator), parser="numpy").parse(warnings=False)
    described = {
        name: one.description
        for section in sections
        if section.kind in (DocstringSectionKind.parameters, DocstringSectionKind.attributes)
        for one in section.value
        for name in one.name.split(", ")
    }
    assert set(inspect.signature(estimator).parameters) <= set(described)
    assert all(described.values())
