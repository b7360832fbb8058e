"""Boosting with error costs, or with a codeword per class: AdaBoost.MH, REBEL, MCBoost."""
