import json

import jax
from jax.experimental import multihost_utils


def on_host(answers):
    """The rows of an array, as numpy."""
    return multihost_utils.process_allgather(answers, tiled=True)


class Output:
    def __init__(self, path):
        self.path = path

    def add(self, answers):
        rows = on_host(answers).tolist()
        if jax.process_index() != 0:
            return
        with open(self.path, "a") as file:
            for row in rows:
                file.write(json.dumps(row) + "\n")
