"""Parameters that are shards between the steps."""
import jax


def gathered(params, axis):
    return jax.tree.map(lambda p: jax.lax.all_gather(p, axis, axis=0), params)  # mistake: untiled-gather
