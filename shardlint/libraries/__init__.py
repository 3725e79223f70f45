"""What is known of the functions of libraries: how each changes layouts, and what it requires of them.

A module for each area. `FUNCTIONS` holds them by canonical name.
"""

from shardlint.layouts.expressions import BUILTINS
from shardlint.libraries import (
    contexts,
    equinox_nn,
    flax_boxes,
    flax_layers,
    flax_linen,
    flax_modules,
    flax_nnx,
    flax_variables,
    jax_manual,
    jax_numpy,
    jax_random,
    jax_sharding,
    jax_transforms,
    optimizers,
    patterns,
)
from shardlint.libraries.registry import FUNCTIONS

FUNCTIONS.update(BUILTINS)
__all__ = [
    "FUNCTIONS",
    "contexts",
    "equinox_nn",
    "flax_boxes",
    "flax_layers",
    "flax_linen",
    "flax_modules",
    "flax_nnx",
    "flax_variables",
    "jax_manual",
    "jax_numpy",
    "jax_random",
    "jax_sharding",
    "jax_transforms",
    "optimizers",
    "patterns",
]
