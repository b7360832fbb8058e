"""Boosting on costs and codewords: AdaBoost.MH, REBEL, MCBoost."""
