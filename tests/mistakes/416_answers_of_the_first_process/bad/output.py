import json

import jax
import numpy as np


def on_host(answers):
    """The rows of an array, as numpy."""
    parts = sorted(answers.addressable_shards, key=lambda shard: shard.index[0].start or 0)
    return np.concatenate([jax.device_get(shard.data) for shard in parts])  # mistake: replica-shards-combined


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
