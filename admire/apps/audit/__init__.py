"""Whether figures can be believed."""
