"""Splits quantised experts over the expert axis."""

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from unpack import expand_scale, transpose_experts

EXPERT_AXIS = "expert"


def process_weights(mesh: Mesh, stored: dict[str, jax.Array]) -> dict[str, jax.Array]:
    """Bring both projections of all experts in order, each device keeping its own experts."""
    by_expert = NamedSharding(mesh, P(EXPERT_AXIS, None, None))

    @jax.jit
    def run(stored):
        w13_weight = transpose_experts(stored["w13"])
        w13_weight_scale = expand_scale(stored["w13_scale"])
        w2_weight = transpose_experts(stored["w2"])
        w2_weight_scale = expand_scale(stored["w2_scale"])
        w13_weight = jax.lax.with_sharding_constraint(w13_weight, by_expert)
        w13_weight_scale = jax.lax.with_sharding_constraint(w13_weight_scale, by_expert)
        w2_weight = jax.lax.with_sharding_constraint(w2_weight, by_expert)
        w2_weight = jax.lax.with_sharding_constraint(w2_weight, by_expert)  # mistake: repeated-constraint
        return {
            "w13_weight": w13_weight,
            "w13_weight_scale": w13_weight_scale,
            "w2_weight": w2_weight,
            "w2_weight_scale": w2_weight_scale,
        }

    return run(stored)
