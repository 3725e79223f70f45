"""Files of arrays."""

import pickle


class Checkpoint:
    def __init__(self, path):
        self.path = path
        self.params = None

    def save(self):
        with open(self.path, "wb") as file:
            pickle.dump(self.params, file)
