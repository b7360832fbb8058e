"""Boosting by weights of rows: GAMBLE, SAMME, AdaBoost and Gentle AdaBoost."""
