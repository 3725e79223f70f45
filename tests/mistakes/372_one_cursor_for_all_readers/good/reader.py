import jax
import numpy as np


class Reader:
    """Goes through the files of this process in order."""

    def __init__(self, files):
        self.mine = list(range(jax.process_index(), files, jax.process_count()))
        self.position = 0

    def cursor(self):
        return {"mine": self.mine, "position": self.position}

    def continue_at(self, cursor):
        self.mine, self.position = list(cursor["mine"]), cursor["position"]

    def __next__(self):
        file = self.mine[self.position % len(self.mine)]
        self.position += 1
        return np.full((8, 4), file, np.float32)
