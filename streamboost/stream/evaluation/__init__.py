"""How good the predictions were: honest figures and their intervals."""
