"""Online stacking: combines the predictions of several experts for each record."""
