"""Which process runs code, when the backend starts, and what all processes do together."""
