"""How good the predictions were: honest figures, intervals, and label sets."""
