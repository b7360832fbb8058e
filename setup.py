"""Lists the packages of the wheel: the folders of streamboost/, connectors/ and pipelines/.

`packages.find` in pyproject.toml cannot rename folders on the way: the latter two install inside
the package.
"""

from setuptools import find_namespace_packages, setup

CACHES = "*.__pycache__"
LINKS = ("streamboost.connectors*", "streamboost.pipelines*")  # a checkout has them, no sdist

inside = find_namespace_packages(
    include=["connectors", "connectors.*", "pipelines", "pipelines.*"], exclude=[CACHES]
)
outside = find_namespace_packages(
    include=["streamboost", "streamboost.*"], exclude=[CACHES, *LINKS]
)
setup(packages=[*outside, *(f"streamboost.{name}" for name in inside)])
