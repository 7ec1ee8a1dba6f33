"""How well a classifier did."""
