"""The papers' tables and figures: published beside measured, and curves to PNG.

    python -m benchmarks.paper_tables [mcboost aoso gamble rebel] [--out build/benchmarks]

Each paper has a module of its own, which states the protocol it follows and where that of the paper
is silent. Published numbers are typed from the papers; a figure whose values no text gives has no
published numbers here, and what the paper says of it in words stands in their place. Sets that do
not come with the data folder are left out. What was measured last stands in `RESULTS.md`, with day
and commit.
"""
