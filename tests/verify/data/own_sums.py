"""Functions of regions that average what each device made of its own rows, or make whole what each needs a part of: the
mistakes are marked with their kind, the others are meant.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("d",))
N = 8
region = functools.partial(jax.shard_map, mesh=mesh, check_vma=False)
score = functools.partial(region, in_specs=(P(), P("d")), out_specs=P())
batch = functools.partial(region, in_specs=(P(), P("d")), out_specs=P("d"))


@score
def perplexity(w, x):
    return jax.lax.pmean(jnp.exp(jnp.mean(jnp.abs(x @ w))), "d")  # here nonlinear-of-mean


@score
def perplexity_of_the_mean(w, x):
    return jnp.exp(jax.lax.pmean(jnp.mean(jnp.abs(x @ w)), "d"))


@score
def mean_of_exponentials(w, x):
    return jax.lax.pmean(jnp.mean(jnp.exp(-jnp.abs(x @ w))), "d")


@score
def mean_of_losses_with_a_softmax(w, x):
    return jax.lax.pmean(-jnp.mean(jax.nn.log_softmax(x @ w)[:, 0]), "d")


@score
def rmse_for_each_column(w, x):
    root = jnp.sqrt(jnp.mean((x @ w) ** 2, axis=0))  # here nonlinear-of-mean
    return jax.lax.pmean(root, "d")


@score
def norm_of_each_row(w, x):
    return jax.lax.pmean(jnp.mean(jnp.sqrt(jnp.sum((x @ w) ** 2, axis=1))), "d")


@score
def score_by_two_sums(w, x):
    y = x @ w
    hits, misses = jnp.sum(jax.nn.relu(y)), jnp.sum(jax.nn.relu(-y))
    f = 2 * hits / (2 * hits + misses + 1)  # here nonlinear-of-mean
    return jax.lax.psum(1 - f, "d") / N


@score
def statistics(w, x):
    y = x @ w
    mean = jax.lax.pmean(y.mean(0), "d")
    return mean, jax.lax.pmean(y.std(0), "d")  # here nonlinear-of-mean


@score
def statistics_of_all(w, x):
    y = x @ w
    mean = jax.lax.pmean(y.mean(0), "d")
    return mean, jnp.sqrt(jax.lax.pmean((y**2).mean(0), "d") - mean**2)


@score
def spread_of_each_for_a_log(w, x):
    """Without the mean beside it, this may be meant."""
    return jax.lax.pmean(jnp.var(x @ w), "d")


@score
def layer_norm(w, x):
    y = x @ w
    y = (y - y.mean(-1, keepdims=True)) / jnp.sqrt(y.var(-1, keepdims=True) + 1e-5)
    return jax.lax.pmean(jnp.mean(y**2), "d")


@score
def normalised_by_each_device(w, x):
    """The statistics of a device's own batch, used on its own rows."""
    y = x @ w
    y = (y - y.mean(0)) / jnp.sqrt(y.var(0) + 1e-5)
    return jax.lax.pmean(jnp.mean(jnp.tanh(y)), "d")


@score
def median_of_each(w, x):
    return jax.lax.pmean(jnp.median(x @ w[:, 0]), "d")  # here nonlinear-of-mean


@score
def step_of_gradients(w, x):
    loss, grads = jax.value_and_grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(w)
    grads = jax.lax.pmean(grads, "d")
    return w - 0.1 * grads / (jnp.linalg.norm(grads) + 1e-6), jax.lax.pmean(loss, "d")


@score
def accuracy_of_gathered(w, x):
    y = jax.lax.all_gather(x @ w, "d", tiled=True)  # here gather-before-reduce
    return jnp.mean(jnp.argmax(y, -1) == 0)


@score
def largest_of_gathered(w, x):
    y = jax.lax.all_gather(x @ w, "d")  # here gather-before-reduce
    return jnp.max(jnp.abs(y), axis=(0, 1))


@score
def contrast_with_gathered(w, x):
    y = x @ w
    others = jax.lax.all_gather(y, "d", tiled=True)
    return jax.lax.pmean(jnp.mean(jax.nn.logsumexp(y @ others.T, axis=-1)), "d")


@score
def order_of_gathered(w, x):
    return jnp.sort(jax.lax.all_gather(x @ w[:, 0], "d", tiled=True))[-8:].mean()


@score
def spread_of_gathered(w, x):
    """The mean first, and then the squares: sums both."""
    y = jax.lax.all_gather(x @ w, "d", tiled=True)  # here gather-before-reduce
    return jnp.mean((y - y.mean(0)) ** 2)


@batch
def weights_gathered_for_a_product(w, x):
    return jax.lax.all_gather(x, "d", tiled=True)[:, :1].sum() + x @ jax.lax.all_gather(w[:8], "d", tiled=True)


@batch
def part_of_a_sum(w, x):
    y = jax.lax.psum(x.T @ x, "d")  # here gather-before-reduce
    return jax.lax.dynamic_slice_in_dim(y, jax.lax.axis_index("d") * 8, 8) / N


@batch
def row_of_a_sum(w, x):
    y = jax.lax.pmean(x.T @ x, "d")  # here gather-before-reduce
    return y.reshape(N, 8, -1)[jax.lax.axis_index("d")]


@batch
def part_of_a_scattered_sum(w, x):
    return jax.lax.psum_scatter(x.T @ x, "d", tiled=True)


@batch
def part_of_a_sum_that_is_scaled_by_its_norm(w, x):
    y = jax.lax.psum(x.T @ x, "d")
    y = y / jnp.linalg.norm(y)
    return jax.lax.dynamic_slice_in_dim(y, jax.lax.axis_index("d") * 8, 8)


@batch
def gathered_in_each_round(w, x):
    def body(_, h):
        return jnp.tanh(h @ jax.lax.all_gather(x, "d", tiled=True)[:64])  # here gather-in-loop

    return jax.lax.fori_loop(0, 4, body, x)


@batch
def gathered_layer_by_layer(w, x):
    """Two of them in turn: no more than one is whole at a time."""
    a, b = x[:, :32], x[:, 32:]

    def body(h, _):
        h = jnp.tanh(h @ jax.lax.all_gather(a, "d", axis=0, tiled=True)[:64])
        return jnp.tanh(h @ jax.lax.all_gather(b, "d", axis=0, tiled=True)[:32]), None

    return jax.lax.scan(lambda h, _: (body(h, None)[0].repeat(2, 1), None), x, None, length=4)[0]


@batch
def rows_of_a_stack(w, x):
    """Another layer in each round."""
    stack = jnp.stack([x, 2 * x])

    def body(h, layer):
        return jnp.tanh(h @ jax.lax.all_gather(layer, "d", tiled=True)[:64]), None

    return jax.lax.scan(body, x, stack)[0]


@batch
def places_in_a_buffer_of_all(w, x):
    hot = jax.nn.one_hot(jnp.argmax(x[:, :4], -1), 4, dtype=jnp.int32)
    place = ((jnp.cumsum(hot, 0) - hot) * hot).sum(-1)  # here local-as-global
    buffer = jnp.zeros((4, 64, 64)).at[jnp.argmax(hot, -1), place].add(x)
    return jax.lax.psum(buffer, "d")[jnp.argmax(hot, -1), place]


@batch
def places_in_a_buffer_of_each(w, x):
    hot = jax.nn.one_hot(jnp.argmax(x[:, :N], -1), N)
    place = ((jnp.cumsum(hot, 0) - 1) * hot).sum(-1).astype(int)
    sent = jnp.zeros((N, 16, 64)).at[jnp.argmax(hot, -1), place].set(x)
    got = jax.lax.all_to_all(jax.lax.all_to_all(sent, "d", 0, 0, tiled=True), "d", 0, 0, tiled=True)
    return got[jnp.argmax(hot, -1), place]


def main():
    rng = np.random.default_rng(0)
    w = jax.device_put(rng.normal(size=(64, 64)).astype(np.float32), NamedSharding(mesh, P()))
    x = jax.device_put(rng.normal(size=(128, 64)).astype(np.float32), NamedSharding(mesh, P("d")))
    for name, function in list(globals().items()):
        if isinstance(function, type(main)) and name != "main":
            jax.block_until_ready(jax.jit(function)(w, x))


if __name__ == "__main__":
    main()
