"""Triggers on what maps functions over devices. Apart from the other triggers, as it takes the names from the model."""

from __future__ import annotations

from shardlint.model.manual.mapped import MAPS
from shardlint.rules_api.rule import Calls, Keywords

# A helper of the project that maps is told by the specs that it is given.
_HELPERS = Keywords("in_specs")
MAPPING = (Calls(*MAPS), _HELPERS)
"""All that maps functions over devices, in the same file."""
BY_JAX = (Calls(*(name for name in MAPS if name.startswith("jax."))), _HELPERS)
"""The same without what Flax and Equinox map by, whose arguments are told otherwise."""
