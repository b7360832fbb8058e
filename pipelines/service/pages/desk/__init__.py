"""What the labelling page is made of."""
