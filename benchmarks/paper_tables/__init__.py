"""Tables and figures of the papers: published and measured values, and curves as PNG.

    python -m benchmarks.paper_tables [mcboost aoso gamble rebel] [--out build/benchmarks]

Each paper has a module of its own, which states its protocol and the gaps in the paper's protocol.
Published numbers are typed from the papers. If the text gives no values of a figure, the paper's
statement in words replaces the numbers. Sets that are not in the data folder are left out.
`RESULTS.md` holds the newest measurement of each table, with day and commit.
"""
