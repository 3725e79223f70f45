"""What is known of the functions of libraries: how each changes layouts, and what it requires of them.

A module for each area. `FUNCTIONS` holds them by canonical name.
"""

from importlib import import_module

from shardlint.layouts.builtin_functions import BUILTINS
from shardlint.libraries import (
    config_dicts,
    contexts,
    equinox_nn,
    flax_checkpoints,
    flax_replication,
    jax_collectives,
    jax_initializers,
    jax_manual,
    jax_numpy,
    jax_pieces,
    jax_products,
    jax_random,
    jax_sharding,
    jax_slices,
    jax_transforms,
    jax_trees,
    named_tuples,
    optimizers,
    options,
    patterns,
    unseen,
)
from shardlint.libraries.registry import FUNCTIONS

FUNCTIONS.update(BUILTINS)
for _marks in ("split_dimensions", "jax_statistics"):  # they mark what functions of the table give
    import_module(f"shardlint.libraries.{_marks}")
_LINEN = ["flax_boxes", "flax_modules", "flax_variables", "flax_linen", "flax_layers"]
_NNX = ["nnx_variables", "nnx_modules", "nnx_layers", "nnx_optimizer"]
_LATER = {"flax": [*_LINEN, *_NNX], "orbax": ["orbax_checkpoints"]}


def load_library(library: str) -> None:
    """Enter the functions of a library that few files import, when the first one does."""
    for module in _LATER.pop(library, ()):
        import_module(f"shardlint.libraries.{module}")


__all__ = [
    "FUNCTIONS",
    "config_dicts",
    "contexts",
    "equinox_nn",
    "flax_checkpoints",
    "flax_replication",
    "jax_collectives",
    "jax_initializers",
    "jax_manual",
    "jax_numpy",
    "jax_pieces",
    "jax_products",
    "jax_random",
    "jax_sharding",
    "jax_slices",
    "jax_transforms",
    "jax_trees",
    "load_library",
    "named_tuples",
    "optimizers",
    "options",
    "patterns",
    "unseen",
]
