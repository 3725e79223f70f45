"""First weights, drawn on the host."""
import numpy as np


def draw(generator, widths):
    return [
        (generator.normal(size=(one, other)) / np.sqrt(one)).astype(np.float32)
        for one, other in zip(widths, widths[1:])
    ]
