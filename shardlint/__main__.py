"""`python -m shardlint` is the `shardlint` command."""

from shardlint.cli import main

main()
