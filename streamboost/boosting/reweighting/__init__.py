"""Boosting algorithms that reweight the rows: GAMBLE, SAMME, AdaBoost and Gentle AdaBoost."""
