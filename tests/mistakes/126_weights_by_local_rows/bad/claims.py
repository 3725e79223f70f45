"""Synthetic insurance claims: counts, rating factors and exposures."""
import numpy as np


def load(rows, factors, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, factors))
    beta = np.linspace(-0.4, 0.4, factors)
    exposure = np.sort(rng.uniform(0.1, 3.0, size=rows))
    counts = rng.poisson(exposure * np.exp(x @ beta - 0.5))
    return x.astype(np.float32), counts.astype(np.float32), exposure.astype(np.float32)
