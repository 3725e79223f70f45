"""Effects of a change: on the files that depend on it, and compared with an earlier revision."""
