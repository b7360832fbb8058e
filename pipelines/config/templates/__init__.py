"""Templates of pipeline files for `streamboost init`."""
