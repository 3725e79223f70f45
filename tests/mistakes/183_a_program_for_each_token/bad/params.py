"""Toy decoder weights, sharded by einshard expressions (Mistral layout)."""
import jax
import numpy as np
from einshard import einshard

EXPRESSIONS = {
    "embed": "v d -> v d*",
    "q": "l d h k -> l d h* k",
    "k": "l d h k -> l d h* k",
    "v": "l d h k -> l d h* k",
    "o": "l h k d -> l h* k d",
    "up": "l d f -> l d f*",
    "down": "l f d -> l f* d",
    "head": "d v -> d v*",
}


def shapes(vocab, dim, heads, layers):
    k = dim // heads
    return {
        "embed": (vocab, dim),
        "q": (layers, dim, heads, k),
        "k": (layers, dim, heads, k),
        "v": (layers, dim, heads, k),
        "o": (layers, heads, k, dim),
        "up": (layers, dim, 4 * dim),
        "down": (layers, 4 * dim, dim),
        "head": (dim, vocab),
    }


def load(vocab=128, dim=64, heads=8, layers=2, seed=0):
    rng = np.random.default_rng(seed)
    host = {n: 0.05 * rng.standard_normal(s).astype(np.float32) for n, s in shapes(vocab, dim, heads, layers).items()}
    return {n: einshard(w, EXPRESSIONS[n]) for n, w in host.items()}


def empty_cache(batch, length, params):
    layers, _, heads, k = params["k"].shape
    zeros = np.zeros((layers, batch, length, heads, k), np.float32)
    return {n: einshard(zeros, "l b t h k -> l b t h* k") for n in ("k", "v")}
