"""`shardlint verify --init`: fixtures of the jitted functions that a program called, written from one run of it."""
