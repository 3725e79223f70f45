"""Time-ordered sensor windows; later rows are noisier."""
import numpy as np


def windows(n, length, seed):
    rng = np.random.default_rng(seed)
    phase = rng.uniform(0, 2 * np.pi, size=(n, 1))
    t = np.arange(length + 1)[None, :]
    noise = np.linspace(0.02, 1.0, n)[:, None] * rng.normal(size=(n, length + 1))
    series = np.sin(0.4 * t + phase) + noise
    return series[:, :-1].astype(np.float32), series[:, -1].astype(np.float32)
