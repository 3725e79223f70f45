"""Light curves, made up."""

import numpy as np


class Catalogue:
    """Draws rows of brightness over time, and how fast each star turns."""

    def __init__(self, length, seed):
        self.length = length
        self.seed = seed
        self.time = np.linspace(0.0, 1.0, length)

    def draw(self, number, rows):
        rng = np.random.default_rng((self.seed, number))
        speed = rng.uniform(1.0, 9.0, (rows, 1))
        noise = rng.normal(size=(rows, self.length)) * 0.05
        curve = np.sin(2 * np.pi * speed * self.time) + noise
        return {"curve": curve.astype(np.float32), "speed": speed[:, 0].astype(np.float32)}
