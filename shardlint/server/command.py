"""The command `server`."""

from __future__ import annotations

import importlib.util

import click


@click.command()
@click.option("--stdio", is_flag=True, help="Use standard input and output, which is the default.")
def server(stdio: bool) -> None:
    """Serve an editor: findings as one types, fixes, what is known at a place.

    Talks the Language Server Protocol over standard input and output. Nothing of the checked project is run. Needs
    `pip install "shardlint[server]"`.
    """
    if importlib.util.find_spec("pygls") is None:
        raise click.ClickException('the server needs pygls: pip install "shardlint[server]"')
    from shardlint.server.serve import serve_editor

    serve_editor()
