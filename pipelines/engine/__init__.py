"""One pipeline at work: what it knows, the loop around it, and going on after any end."""
