"""Training steps that look like mistakes and are none: what is fetched, placed, padded or looked up here is meant."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

D, LAYERS, ROWS = 128, 3, 128
mesh = Mesh(np.array(jax.devices()), ("data",))
split, whole = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())
tx = optax.adam(1e-3)
rng = np.random.default_rng(0)


def init(key):
    return {f"w{i}": jax.random.normal(one, (D, D)) * D**-0.5 for i, one in enumerate(jax.random.split(key, LAYERS))}


def forward(params, x):
    for name in sorted(params):
        x = jnp.tanh(x @ params[name])
    return x


def batch(*shape):
    return rng.normal(size=shape).astype(np.float32)


@jax.jit
def distil(params, opt, teacher, x):
    """The teacher has as many rows as a batch, and is placed once."""

    def loss(p):
        return jnp.mean((forward(p, x) - forward(teacher, x)) ** 2)

    value, grads = jax.value_and_grad(loss)(params)
    updates, opt = tx.update(grads, opt, params)
    return optax.apply_updates(params, updates), opt, value


@jax.jit
def predict(params, x):
    return forward(params, x)


def kept_now_and_then():
    """A checkpoint after each third step, and predictions that are for the host."""
    params = jax.jit(init, out_shardings=split)(jax.random.key(0))
    opt, teacher = tx.init(params), jax.device_put({"t": batch(D, D)}, whole)
    for number in range(9):
        x = jax.device_put(batch(ROWS, D), split)
        params, opt, _ = distil(params, opt, teacher, x)
        if number % 3 == 2:
            kept = jax.tree.map(np.asarray, params)
    hits = [np.asarray(predict(params, jax.device_put(batch(ROWS, D), split))).argmax(-1) for _ in range(3)]
    return kept, hits


@jax.jit
def masked(params, x, valid):
    losses = jnp.mean((forward(params, x) - x) ** 2, -1)
    return jnp.sum(losses * valid) / jnp.sum(valid)


@jax.jit
def returns(rewards):
    return jnp.mean(jnp.cumsum(rewards, axis=1))


@jax.jit
def row_by_row(params, x):
    return jnp.mean((forward(params, x) - x) ** 2, -1)


def filled_up():
    """The rows that are there come by another call, or the rows that are not are left out on the host."""
    params = jax.device_put(init(jax.random.key(0)), whole)
    total = 0.0
    for count in (ROWS, ROWS, ROWS, 40):
        x = np.zeros((ROWS, D), np.float32)
        x[:count] = batch(count, D)
        valid = jax.device_put((np.arange(ROWS) < count).astype(np.float32), split)
        placed = jax.device_put(x, split)
        total += float(masked(params, placed, valid)) + row_by_row(params, placed)[:count].sum()
    for number in range(4):
        rewards = (rng.random((ROWS, 16)) < 0.3).astype(np.float32) * (2.0 + number)
        total += float(returns(jax.device_put(rewards, split)))
    return total


@jax.jit
def zero(params, opt, x):
    """The weights are whole, their moments split: gradients whole, too, by plan."""
    value, grads = jax.value_and_grad(lambda p: jnp.mean((forward(p, x) - x) ** 2))(params)
    grads = jax.lax.with_sharding_constraint(grads, whole)
    updates, opt = tx.update(grads, opt, params)
    return jax.lax.with_sharding_constraint(optax.apply_updates(params, updates), whole), opt, value


@jax.jit
def gathered(params, x):
    """Each layer is made whole where it is used."""

    def loss(params):
        h = x
        for name in sorted(params):
            h = jnp.tanh(h @ jax.lax.with_sharding_constraint(params[name], whole))
        return jnp.mean((h - x) ** 2)

    value, grads = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value


@jax.jit
def neighbours(nodes, senders, weights):
    """As many edges as a graph has, and as many as it has nodes by two."""
    return jnp.tanh(nodes[senders] @ weights).sum()


def planned():
    params = jax.device_put(init(jax.random.key(0)), whole)
    lies = jax.tree.map(lambda a: split if a.ndim else whole, jax.eval_shape(tx.init, params))
    opt = jax.jit(tx.init, out_shardings=lies)(params)
    for _ in range(3):
        x = jax.device_put(batch(ROWS, D), split)
        params, opt, _ = zero(params, opt, x)
    own = jax.device_put(params, split)
    for _ in range(3):
        own, value = gathered(own, jax.device_put(batch(ROWS, D), split))
    nodes = jax.device_put(batch(ROWS, D), split)
    senders = jax.device_put(rng.integers(0, ROWS, 2 * ROWS), split)
    return value, neighbours(nodes, senders, params["w0"])


def lengths():
    """Lengths in a few steps of 8."""
    params = jax.device_put(init(jax.random.key(0)), whole)
    for length in (8, 16, 24, 32, 40, 48, 64):
        predict(params, jax.device_put(batch(ROWS, length, D), split))


def distinct():
    """What a library makes of an array on its way is placed by nobody."""
    with jax.set_mesh(mesh):
        numbers, one = jax.device_put((rng.permutation(4096).astype(np.int32), np.int32(1)), (split, whole))
        return jnp.unique(numbers) + one


def gathered_by_each():
    """A buffer that each device fills with its own."""
    insert = jax.pmap(lambda buffer, part, at: jax.lax.dynamic_update_slice(buffer, part, (at,)), in_axes=(0, 0, None))
    energies = jax.pmap(lambda rows: jnp.tanh(rows).sum(-1))
    buffer = jax.device_put(np.zeros((8, 4 * 64), np.float32), split)
    for at in range(4):
        buffer = insert(buffer, energies(batch(8, 64, D)), at * 64)
    return buffer


@jax.jit
def of_all_samples(jacobian):
    """What is multiplied along the other dimension is asked for there."""
    columns = jax.lax.with_sharding_constraint(jnp.pad(jacobian.T, ((0, 8), (0, 0))), split)
    return jax.lax.with_sharding_constraint(columns.T @ columns, whole)


@jax.jit
@jax.shard_map(mesh=mesh, in_specs=(P(None, "data"),) * 3, out_specs=(P(None, "data"), P(None, "data")))
def ring_with_its_sums(q, k, v):
    """What is added up over the rounds of a ring is the sum of all parts, also where its logarithm is kept."""
    turn = [(i, (i + 1) % 8) for i in range(8)]

    def turned(carry, _):
        top, num, den, k, v = carry
        scores = jnp.einsum("bqd,bkd->bqk", q, k)
        now = jnp.maximum(top, scores.max(-1))
        weights, old = jnp.exp(scores - now[..., None]), jnp.exp(top - now)
        num = num * old[..., None] + jnp.einsum("bqk,bkd->bqd", weights, v)
        den = den * old + weights.sum(-1)
        return (now, num, den, jax.lax.ppermute(k, "data", turn), jax.lax.ppermute(v, "data", turn)), None

    begin = (q[..., 0] * 0 - 1e30, q * 0, q[..., 0] * 0, k, v)
    (top, num, den, _, _), _ = jax.lax.scan(turned, begin, None, 8)
    return num / den[..., None], top + jnp.log(den)


@jax.jit
@jax.shard_map(mesh=mesh, in_specs=P("data"), out_specs=P("data"))
def by_turns(keys):
    """Neighbours change places in turns, and the two at the ends wait every other time."""
    me = jax.lax.axis_index("data")
    for first in (0, 1, 0):
        pairs = [(i, i + 1) for i in range(first, 7, 2)]
        other = jax.lax.ppermute(keys, "data", pairs + [(j, i) for i, j in pairs])
        both = jnp.sort(jnp.concatenate([keys, other]))
        lower = (me - first) % 2 == 0
        busy = (first == 0) | ((me > 0) & (me < 7))
        keys = jnp.where(busy, jnp.where(lower, both[: keys.size], both[keys.size :]), keys)
    return keys


def main():
    kept_now_and_then()
    by_turns(jax.device_put(batch(8 * 256), split))
    ring_with_its_sums(*jax.device_put((batch(2, 8 * 16, 32),) * 3, NamedSharding(mesh, P(None, "data"))))
    distinct()
    gathered_by_each()
    of_all_samples(jax.device_put(batch(ROWS, 4096), split))
    filled_up()
    planned()
    lengths()


if __name__ == "__main__":
    main()
