"""Dictionaries beside the chat models: what an expression means, by sense."""
