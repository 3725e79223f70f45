import numpy as np


def fake_checkpoint(seed=0):
    """Layout of the exporter: {tower: {layer: {"kernel": array}}} in float32."""
    rng = np.random.default_rng(seed)
    make = lambda a, b: {"kernel": (rng.normal(size=(a, b)) * a**-0.5).astype(np.float32)}
    return {
        "question": {"up": make(24, 64), "down": make(64, 16)},
        "answer": {"up": make(40, 64), "down": make(64, 16)},
    }
