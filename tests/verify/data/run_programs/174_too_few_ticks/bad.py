"""A pipeline of stages runs for as many ticks as microbatches: the last ones never come out."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

STAGES, MICRO, ROWS, D = 8, 16, 4, 32
mesh = jax.make_mesh((STAGES,), ("stage",))
PAIRS = [(i, (i + 1) % STAGES) for i in range(STAGES)]


def pipeline(w, x):
    """w [1, D, D]: this stage's weights; x [MICRO, ROWS, D] whole."""
    stage = jax.lax.axis_index("stage")
    out = jnp.zeros_like(x)
    held = jnp.zeros((ROWS, D))

    def tick(t, carry):
        held, out = carry
        inp = jnp.where(stage == 0, x[jnp.clip(t, 0, MICRO - 1)], held)
        y = jnp.tanh(inp @ w[0])
        done = t - (STAGES - 1)
        at = jnp.clip(done, 0, MICRO - 1)
        keep = (stage == STAGES - 1) & (done >= 0)
        out = out.at[at].set(jnp.where(keep, y, out[at]))
        return jax.lax.ppermute(y, "stage", PAIRS), out

    ticks = MICRO  # here
    held, out = jax.lax.fori_loop(0, ticks, tick, (held, out))
    return jax.lax.psum(jnp.where(stage == STAGES - 1, out, 0), "stage")


forward = jax.jit(
    jax.shard_map(pipeline, mesh=mesh, in_specs=(P("stage"), P()), out_specs=P(), check_vma=False)
)


def main():
    rng = np.random.default_rng(0)
    w = rng.normal(size=(STAGES, D, D)).astype(np.float32) * D**-0.5
    w = jax.device_put(w, NamedSharding(mesh, P("stage")))
    x = jax.device_put(rng.normal(size=(MICRO, ROWS, D)).astype(np.float32), NamedSharding(mesh, P()))
    y = forward(w, x)
    print(float(jnp.abs(y).mean()))


if __name__ == "__main__":
    main()
