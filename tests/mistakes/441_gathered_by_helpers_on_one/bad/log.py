"""Keeps the last state in a file."""

import numpy as np

import dist


class StateLog:
    def __init__(self, path, every):
        self._path, self._every, self._steps = path, every, 0

    def __call__(self, state):
        self._steps += 1
        if dist.leads():
            if self._steps % self._every == 0:
                arrays = dist.host_copy(state)  # mistake: one-process-collective
                np.savez(self._path, **arrays)
