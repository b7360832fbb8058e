"""Print the papers' tables: see the package's docstring."""

import argparse
from importlib import import_module
from pathlib import Path

import benchmarks.paper_tables as package
from benchmarks.paper_tables.results import RESULTS, commit_of

PAPERS = ["mcboost", "aoso", "gamble", "rebel"]


def main():
    parser = argparse.ArgumentParser(description=package.__doc__.splitlines()[0])
    parser.add_argument("papers", nargs="*", metavar="PAPER", help=f"of {PAPERS}; all by default")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"), help="for the PNGs")
    arguments = parser.parse_args()
    if unknown := set(arguments.papers) - set(PAPERS):
        parser.error(f"no such paper: {', '.join(sorted(unknown))}; there are {', '.join(PAPERS)}")
    commit_of(RESULTS.parent)  # the one that is measured, whatever is committed meanwhile
    for paper in arguments.papers or PAPERS:
        import_module(f"{package.__name__}.{paper}").main(arguments.out)


if __name__ == "__main__":
    main()
