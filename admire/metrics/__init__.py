"""How good orders are, and what was seen in training."""
