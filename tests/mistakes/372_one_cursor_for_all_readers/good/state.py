import json
import pathlib

import jax
import numpy as np

import start


class Saver:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def _weights(self, step):
        return self.folder / f"weights-{step}.npy"

    def _cursor(self, step):
        return self.folder / f"cursor-{step}-{jax.process_index()}.json"

    def save(self, step, w, reader):
        self.folder.mkdir(parents=True, exist_ok=True)
        if jax.process_index() == 0:
            np.save(self._weights(step), jax.device_get(w))
        self._cursor(step).write_text(json.dumps(reader.cursor()))
        start.wait(f"saved {step}")

    def load(self, step, reader):
        reader.continue_at(json.loads(self._cursor(step).read_text()))
        return np.load(self._weights(step))
