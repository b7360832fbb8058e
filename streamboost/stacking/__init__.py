"""Online stacking: combines the predictions of several experts into one for each record."""
