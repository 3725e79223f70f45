import json
import os
import time

import jax
from jax.experimental import multihost_utils


def counted(texts):
    time.sleep(0.5)  # there are many of them
    counts = {}
    for word in (word for text in texts for word in text.split()):
        counts[word] = counts.get(word, 0) + 1
    return counts


def store(path, table):
    with open(path, "w") as file:
        json.dump(table, file)
    with open(f"{path}.builds-{jax.process_index()}", "w") as file:
        file.write("once")


def table_for(path, texts):
    if jax.process_index() == 0:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    multihost_utils.sync_global_devices("folder")
    if jax.process_index() == 0 and not os.path.exists(path):
        store(path, counted(texts))
    multihost_utils.sync_global_devices("table")
    with open(path) as file:
        return json.load(file)
