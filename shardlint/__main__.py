"""`python -m shardlint` is the `shardlint` command."""

import sys

if __name__ == "__main__":
    # Python puts the folder it is started in first: a click.py or a rule pack of the checked project would be run.
    if not sys.flags.safe_path:
        del sys.path[0]
    from shardlint.cli.main import start

    start()
