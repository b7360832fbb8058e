"""Online stacking: combines several experts' predictions for each record to one."""
