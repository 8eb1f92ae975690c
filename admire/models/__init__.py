"""Chat models, encoders, loaded heads, and the list of them."""
