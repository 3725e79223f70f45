"""Text in, text out: finding files, reading them, and the suppressions written in them."""
