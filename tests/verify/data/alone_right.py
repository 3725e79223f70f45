"""Functions of regions that do not give on one device what they give on several, or look so, and are meant."""

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("d",))
N = 8
ROWS = 16
RING = [(i, (i + 1) % N) for i in range(N)]
CHAIN = [(i, i + 1) for i in range(N - 1)]


@dataclass(frozen=True)
class Config:
    devices: int = 8
    local: int = 16


config = Config()
region = functools.partial(jax.shard_map, mesh=mesh, check_vma=False)
batch = functools.partial(region, in_specs=(P(), P("d")))


def loss(w, x):
    return jnp.mean(jnp.tanh(x @ w) ** 2)


@functools.partial(batch, out_specs=P())
def mean_by_a_constant(w, x):
    return w - 0.1 * jax.lax.psum(jax.grad(loss)(w, x), "d") / N


@functools.partial(batch, out_specs=P())
def mean_by_a_config(w, x):
    return w - 0.1 * jax.lax.psum(jax.grad(loss)(w, x), "d") / config.devices


@functools.partial(batch, out_specs=P())
def sum_by_a_count_of_one_device(w, x):
    return jax.lax.pmean(x.T @ (x @ w) / ROWS, "d")


@functools.partial(batch, out_specs=P())
def sum_by_a_count_of_a_config(w, x):
    return jax.lax.pmean(x.T @ (x @ w) / config.local, "d")


@functools.partial(batch, out_specs=P("d"))
def ring_of_the_mesh(w, x):
    n = mesh.shape["d"]
    shift = [(i, (i + 1) % n) for i in range(n)]
    total = part = x @ w
    for _ in range(n - 1):
        part = jax.lax.ppermute(part, "d", shift)
        total = total + part
    return total - jax.lax.psum(x @ w, "d") + x @ w


@functools.partial(batch, out_specs=P("d"))
def ring_of_constants(w, x):
    edge = jax.lax.ppermute((x @ w)[-1:], "d", RING)
    return jnp.concatenate([edge, (x @ w)[:-1]])


@functools.partial(batch, out_specs=P("d"))
def chain_of_constants(w, x):
    edge = jax.lax.ppermute((x @ w)[-1:], "d", CHAIN)
    return jnp.concatenate([edge, (x @ w)[:-1]])


@functools.partial(region, in_specs=(P("d"), P()), out_specs=P())
def stages(w, x):
    stage = jax.lax.axis_index("d")
    for tick in range(N):
        x = jnp.where(stage == tick, jnp.tanh(x @ w[0]), x)
        x = jax.lax.ppermute(x, "d", RING)
    return jax.lax.psum(jnp.where(stage == 0, x, 0.0), "d")


@functools.partial(batch, out_specs=P("d"))
def norm_of_its_rows(w, x):
    h = x @ w
    return (h - h.mean(0)) * jax.lax.rsqrt(h.var(0) + 1e-5)


@functools.partial(batch, out_specs=P())
def clipped_apart(w, x):
    g = jax.grad(loss)(w, x)
    return jax.lax.pmean(g * jnp.minimum(1.0, 0.01 / jnp.linalg.norm(g)), "d")


@functools.partial(batch, out_specs=P())
def balance_of_its_tokens(w, x):
    gates = jax.nn.softmax(x @ w)
    chosen = jax.nn.one_hot(gates.argmax(-1), gates.shape[-1])
    return w * (1 + jax.lax.pmean(jnp.sum(gates.mean(0) * chosen.mean(0)), "d"))


@functools.partial(batch, out_specs=P("d"))
def capacity_of_its_tokens(w, x):
    chosen = jax.nn.one_hot((x @ w).argmax(-1), w.shape[1])
    place = (jnp.cumsum(chosen, 0) * chosen).sum(-1)
    return x * (place < 2)[:, None]


@functools.partial(batch, out_specs=P())
def rounded_for_the_sum(w, x):
    g = jax.grad(loss)(w, x)
    scale = jnp.abs(g).max() / 7
    return jax.lax.pmean(jnp.round(g / scale) * scale, "d")


@functools.partial(batch, out_specs=P())
def several_steps_apart(w, x):
    for _ in range(3):
        w = w - 50.0 * jax.grad(loss)(w, x)
    return jax.lax.pmean(w, "d")


@functools.partial(region, in_specs=(P(), P("d"), P()), out_specs=P("d"))
def drawn_apart(w, x, key):
    key = jax.random.fold_in(key, jax.lax.axis_index("d"))
    return (x @ w) * jax.random.bernoulli(key, 0.9, (x.shape[0], w.shape[1]))


@functools.partial(batch, out_specs=P("d"))
def local_rows_numbered(w, x):
    rows = jnp.arange(x.shape[0])
    return (x @ w)[rows[::-1]][rows[::-1]]


@functools.partial(batch, out_specs=P("d"))
def told_where_it_is(w, x):
    return x @ w + 0.01 * jax.lax.axis_index("d")


TABLE = N * 32
TABLE_ROWS = TABLE // N


@functools.partial(jax.shard_map, mesh=mesh, in_specs=(P("d"), P()), out_specs=(P(), P("d")))
def rows_of_a_constant(table, numbers):
    """Its gradient is right as jax checks what varies: the sum of what all have is no other where it goes back."""

    def loss(table):
        own = numbers - jax.lax.axis_index("d") * TABLE_ROWS
        there = (own >= 0) & (own < TABLE_ROWS)
        rows = jnp.where(there[:, None], table[jnp.clip(own, 0, TABLE_ROWS - 1)], 0.0)
        return jnp.mean(jnp.tanh(jax.lax.psum(rows, "d")) ** 2)

    return jax.value_and_grad(loss)(table)


@functools.partial(region, in_specs=(P("d"), P("d")), out_specs=P("d"))
def numbered_in_each_part(x, numbers):
    return x[numbers] * 2.0


@functools.partial(batch, out_specs=P("d"))
def solved(w, x):
    """How often it goes round hangs on its numbers: those of invented arrays need not come to rest."""

    def apply(y):
        return y + jnp.roll(y, 1, axis=1) * x.mean()

    def more(state):
        return (jax.lax.psum(jnp.vdot(state[1], state[1]), "d") > 1e-6) & (state[2] < 60)

    def step(state):
        y, left, count = state
        rate = jax.lax.psum(jnp.vdot(left, left), "d") / jax.lax.psum(jnp.vdot(left, apply(left)), "d")
        return y + rate * left, left - rate * apply(left), count + 1

    return jax.lax.while_loop(more, step, (jnp.zeros_like(x), x @ w, 0))[0]


def pmapped(w, x):
    h = x @ w
    h = (h - h.mean(0)) * jax.lax.rsqrt(h.var(0) + 1e-5)
    return jax.lax.pmean(w - 0.1 * (x.T @ h) / ROWS, "i")


def main():
    rng = np.random.default_rng(0)
    w = jax.device_put(rng.normal(size=(32, 32)).astype(np.float32), NamedSharding(mesh, P()))
    x = jax.device_put(rng.normal(size=(N * ROWS, 32)).astype(np.float32), NamedSharding(mesh, P("d")))
    for one in (
        mean_by_a_constant, mean_by_a_config, sum_by_a_count_of_one_device, sum_by_a_count_of_a_config,
        ring_of_the_mesh, ring_of_constants, chain_of_constants, norm_of_its_rows, clipped_apart,
        balance_of_its_tokens, capacity_of_its_tokens, rounded_for_the_sum, several_steps_apart,
        local_rows_numbered, told_where_it_is, solved,
    ):  # fmt: skip
        jax.jit(one)(w, x)
    jax.jit(drawn_apart)(w, x, jax.random.key(0))
    numbers = rng.integers(0, TABLE, 64).astype(np.int32)
    rows = jax.device_put(rng.normal(size=(TABLE, 16)).astype(np.float32), NamedSharding(mesh, P("d")))
    rows_of_a_constant(rows, numbers)
    jax.jit(rows_of_a_constant)(rows, numbers)
    jax.jit(numbered_in_each_part)(x, jnp.tile(jnp.arange(ROWS), N))
    jax.jit(stages)(jnp.stack([w] * N) * 0.1, jnp.ones((4, 32)))
    jax.pmap(pmapped, axis_name="i")(np.stack([w] * N), np.asarray(x).reshape(N, ROWS, 32))


if __name__ == "__main__":
    main()
