"""What is known of the functions of libraries: how each changes layouts, and what it requires of them.

A module for each area. `FUNCTIONS` holds them by canonical name.
"""

from importlib import import_module

from shardlint.layouts.builtin_functions import BUILTINS
from shardlint.libraries import (
    attention_masks,
    chex_checks,
    config_dicts,
    contexts,
    einops_patterns,
    equinox_layers,
    equinox_nn,
    flax_checkpoints,
    flax_replication,
    jax_assembly,
    jax_collectives,
    jax_initializers,
    jax_lax,
    jax_linear_algebra,
    jax_manual,
    jax_numpy,
    jax_pieces,
    jax_processes,
    jax_products,
    jax_random,
    jax_searches,
    jax_sharding,
    jax_slices,
    jax_transforms,
    jax_trees,
    jax_windows,
    named_tuples,
    optax_functions,
    optax_wrappers,
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
_NNX = ["nnx_variables", "nnx_modules", "nnx_states", "nnx_layers", "nnx_attention", "nnx_optimizer"]
_HALIAX = ["haliax_axes", "haliax_mappings", "haliax", "haliax_shapes", "haliax_layers"]
_LATER = {"flax": [*_LINEN, *_NNX], "orbax": ["orbax_checkpoints"], "haliax": _HALIAX, "einshard": ["einshard"]}


def load_library(library: str) -> None:
    """Enter the functions of a library that few files import, when the first one does."""
    for module in _LATER.pop(library, ()):
        import_module(f"shardlint.libraries.{module}")


__all__ = [
    "FUNCTIONS",
    "attention_masks",
    "chex_checks",
    "config_dicts",
    "contexts",
    "einops_patterns",
    "equinox_layers",
    "equinox_nn",
    "flax_checkpoints",
    "flax_replication",
    "jax_assembly",
    "jax_collectives",
    "jax_initializers",
    "jax_lax",
    "jax_linear_algebra",
    "jax_manual",
    "jax_numpy",
    "jax_pieces",
    "jax_processes",
    "jax_products",
    "jax_random",
    "jax_searches",
    "jax_sharding",
    "jax_slices",
    "jax_transforms",
    "jax_trees",
    "jax_windows",
    "load_library",
    "named_tuples",
    "optax_functions",
    "optax_wrappers",
    "optimizers",
    "options",
    "patterns",
    "unseen",
]
