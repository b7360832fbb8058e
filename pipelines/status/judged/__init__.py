"""The records that were asked about or labelled, and who labelled them."""
