"""The boosting loop, one file per family, and the committee it leaves."""
