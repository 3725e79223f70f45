"""Models of library functions: the effect of each on layouts, and its requirements.

A module for each area. `FUNCTIONS` holds them by canonical name.
"""

from importlib import import_module

from shardlint.libraries.registry import FUNCTIONS

__all__ = ["FUNCTIONS"]

_AREAS = """
attention_masks chex_checks config_dicts contexts einops_patterns equinox_layers equinox_nn flax_checkpoints
flax_replication jax_assembly jax_collectives jax_initializers jax_lax jax_linear_algebra jax_manual jax_numpy
jax_pieces jax_processes jax_products jax_random jax_searches jax_sharding jax_slices jax_transforms jax_trees
jax_windows named_tuples optax_functions optax_wrappers optimizers options patterns unseen
""".split()
_MARKING = ["split_dimensions", "jax_statistics"]  # they mark what functions of the table give
_LINEN = ["flax_boxes", "flax_modules", "flax_variables", "flax_linen", "flax_layers"]
_NNX = ["nnx_variables", "nnx_modules", "nnx_states", "nnx_layers", "nnx_attention", "nnx_optimizer"]
_HALIAX = ["haliax_axes", "haliax_mappings", "haliax", "haliax_shapes", "haliax_layers"]
_LATER = {"flax": [*_LINEN, *_NNX], "orbax": ["orbax_checkpoints"], "haliax": _HALIAX, "einshard": ["einshard"]}

for _name in (*_AREAS, *_MARKING):
    import_module(f"{__name__}.{_name}")
FUNCTIONS.modules.update({library: [f"{__name__}.{name}" for name in names] for library, names in _LATER.items()})
