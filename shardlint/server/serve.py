"""The server with all it can do, over standard input and output."""

from __future__ import annotations

import gc
import logging
import sys

from shardlint.server import features
from shardlint.server.app import Server


def serve_editor() -> None:
    """Serve an editor over standard input and output until it says that this is enough."""
    logging.basicConfig(stream=sys.stderr, level=logging.ERROR)
    gc.disable()  # the worker collects when nobody types
    made = make_server()
    try:
        made.start_io()
    finally:
        made.worker.end_thread()


def make_server() -> Server:
    """A server with all it can do."""
    made = Server()
    for register in features.EACH:
        register(made)
    return made
