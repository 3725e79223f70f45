"""Operations whose result has no layout of its own on a mesh with Explicit axes."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, reshard
from jax.sharding import PartitionSpec as P

devices = np.array(jax.devices())
mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Explicit,) * 2)
mixed = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Explicit, AxisType.Auto))
auto = Mesh(devices.reshape(4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)


def put(shape, *spec, over=mesh, **more):
    return jax.device_put(jnp.ones(shape), NamedSharding(over, P(*spec, **more)))


class Model:
    def __init__(self):
        self.rows = put((8, 4), "data", None)
        self.columns = put((8, 4), None, "data")

    def total(self):
        return self.rows + self.columns


def contracted_where_both_are_sharded():
    """x\\.T f32\\[4,8\\] P\\(None, 'data'\\).*x f32\\[8,4\\] P\\('data'"""
    x = put((8, 4), "data", None)
    return x.T @ x


def contracted_with_different_specs():
    """x f32\\[8,8\\] P\\(None, 'data'\\).*w f32\\[8,8\\] P\\('model'"""
    x, w = put((8, 8), None, "data"), put((8, 8), "model", None)
    return jnp.dot(x, w, out_sharding=P(unreduced={"data"}))


def batches_of_different_specs():
    """x f32\\[8,4,4\\] P\\('data'.*y f32\\[8,4,4\\] P\\('model'"""
    x, y = put((8, 4, 4), "data", None, None), put((8, 4, 4), "model", None, None)
    return jnp.matmul(x, y)


def added_with_different_specs():
    """x f32\\[8,4\\] P\\('data'.*y f32\\[8,4\\] P\\(None, 'data'"""
    x, y = put((8, 4), "data", None), put((8, 4), None, "data")
    return x + y


def added_in_a_method():
    """self\\.rows f32\\[8,4\\] P\\('data'.*self\\.columns f32\\[8,4\\] P\\(None, 'data'"""
    Model().total()


def added_while_traced():
    """x f32\\[8,4\\] P\\('data'.*y f32\\[8,4\\] P\\(None, 'data'"""

    def step(x, y):
        return x + y  # at

    jax.jit(step)(put((8, 4), "data", None), put((8, 4), None, "data"))


def split_into_dimensions():
    """x f32\\[32\\] P\\('data'"""
    x = put((32,), "data")
    return x.reshape(2, 16)


def joined_dimensions():
    """x f32\\[8,4\\] P\\(None, 'data'"""
    x = put((8, 4), None, "data")
    return x.reshape(-1)


def looked_up():
    """table f32\\[16,4\\] P\\('data'.*ids i32\\[8\\] P\\('data'"""
    table, ids = put((16, 4), "data", None), put((8,), "data").astype(int)
    return table[ids]


def added_to_rows():
    """table f32\\[16,4\\] P\\('data'.*(ids|x)"""
    table, ids, x = put((16, 4), "data", None), put((8,), "data").astype(int), put((8, 4), "data", None)
    return table.at[ids].add(x)


def concatenated():
    """x f32\\[8,4\\] P\\('data'.*y f32\\[8,4\\] P\\(None"""
    x, y = put((8, 4), "data", None), put((8, 4), None, "model")
    return jnp.concatenate([x, y])


def sorted_along_its_axis():
    """x f32\\[8,4\\] P\\('data'"""
    x = put((8, 4), "data", None)
    return jnp.sort(x, axis=0)


def top_k_along_its_axis():
    """needs an unsharded dimension, and x shards it.*x f32\\[8,4\\] P\\(None, 'model'\\)"""
    x = put((8, 4), None, "model")
    return jax.lax.top_k(x, 2)


def chosen_of_different_specs():
    """x f32\\[8,4\\] P\\('data'.*y f32\\[8,4\\] P\\(None"""
    x, y = put((8, 4), "data", None), put((8, 4), None, "model")
    return jax.lax.select(put((8, 4), "data", None) > 0, x, y)


def chosen_by_another_spec():
    """which|x f32\\[8,4\\] P\\('data'"""
    x, which = put((8, 4), "data", None), put((8, 4), None, "model") > 0
    return jax.lax.select(which, x, x)


def scanned_along_its_axis():
    """xs f32\\[8,4\\] P\\('data'"""
    xs = put((8, 4), "data", None)
    return jax.lax.scan(lambda total, x: (total + x.sum(), None), 0.0, xs)


def mapped_along_its_axis():
    """xs f32\\[8,4\\] P\\('data'"""
    xs = put((8, 4), "data", None)
    return jax.lax.map(lambda x: x * 2, xs, batch_size=2)


def carried_another_way():
    """start f32\\[8,4\\] P\\('data'"""
    start = put((8, 4), "data", None)

    def body(total, _):
        return reshard(total, P(None, "data")), None

    with jax.set_mesh(mesh):
        return jax.lax.scan(body, start, None, length=3)  # at


def branches_of_different_specs():
    """x f32\\[8,4\\] P\\('data'"""
    x = put((8, 4), "data", None)
    with jax.set_mesh(mesh):
        return jax.lax.cond(True, lambda x: x, lambda x: reshard(x, P(None, "data")), x)  # at


def loop_that_changes_the_layout():
    """start f32\\[8,4\\] P\\('data'"""
    start = put((8, 4), "data", None)
    with jax.set_mesh(mesh):
        return jax.lax.fori_loop(0, 3, lambda _, x: reshard(x, P(None, "data")), start)  # at


def rolled_along_its_axis():
    """x f32\\[8,4\\] P\\('data'"""
    x = put((8, 4), "data", None)
    return jnp.roll(x, 1, axis=0)


def repeated_along_its_axis():
    """x f32\\[8,4\\] P\\('data'"""
    x = put((8, 4), "data", None)
    return jnp.repeat(x, jnp.arange(8), axis=0, total_repeat_length=28)


def argmax_of_all():
    """x f32\\[8,4\\] P\\('data'"""
    x = put((8, 4), "data", None)
    return jnp.median(x)


def cumulative_of_all():
    """x f32\\[8,4\\] P\\('data'"""
    x = put((8, 4), "data", None)
    return jnp.cumsum(x, axis=0)


def nonzero_of_sharded_rows():
    """x f32\\[8,4\\] P\\('data'"""
    x = put((8, 4), "data", None)
    return jnp.nonzero(x, size=4)


def factored_along_its_axis():
    """a f32\\[8,8\\] P\\('data'"""
    a = put((8, 8), "data", None)
    return jnp.linalg.cholesky(a)


def padded_along_its_axis():
    """x f32\\[8,4\\] P\\('data'"""
    x = put((8, 4), "data", None)
    return jnp.pad(x, ((0, 1), (0, 0)))


def cut_along_its_axis():
    """x f32\\[8,4\\] P\\('data'"""
    x = put((8, 4), "data", None)
    return x[:3]


def cut_at_a_place():
    """x f32\\[8,4\\] P\\('data'"""
    x = put((8, 4), "data", None)
    return jax.lax.dynamic_slice(x, (0, 0), (2, 4))


def updated_with_another_spec():
    """x f32\\[8,4\\] P\\('data'.*y f32\\[4,4\\] P\\(None"""
    x, y = put((8, 4), "data", None), put((4, 4), None, "model")
    return jax.lax.dynamic_update_slice(x, y, (0, 0))


def stacked_of_different_specs():
    """x f32\\[8,4\\] P\\('data'.*y f32\\[8,4\\] P\\(None"""
    x, y = put((8, 4), "data", None), put((8, 4), None, "model")
    return jnp.stack([x, y])


def unstacked_along_its_axis():
    """x f32\\[8,4\\] P\\('data'"""
    x = put((8, 4), "data", None)
    return jnp.unstack(x)


def tiled_along_its_axis():
    """x f32\\[8,4\\] P\\('data'"""
    x = put((8, 4), "data", None)
    return jnp.tile(x, (2, 1))


def two_meshes():
    """x f32\\[8,4\\] P\\('data'.*y f32\\[8,4\\] P\\('data'"""
    other = jax.make_mesh((2, 4), ("data", "model"), axis_types=(AxisType.Explicit,) * 2)
    x, y = put((8, 4), "data", None), put((8, 4), "data", None, over=other)
    return x + y


def product_of_two_meshes():
    """x f32\\[8,4\\] P\\('data'.*y f32\\[4,8\\] P\\(None"""
    other = jax.make_mesh((2, 4), ("data", "model"), axis_types=(AxisType.Explicit,) * 2)
    x, y = put((8, 4), "data", None), put((4, 8), None, "data", over=other)
    return x @ y


def unreduced_and_squared():
    """x f32\\[8\\]"""
    with jax.set_mesh(mesh):
        x = jnp.dot(put((8, 8), None, "data"), put((8,), "data"), out_sharding=P(None, unreduced={"data"}))
        return jnp.sin(x)  # at


def unreduced_times_unreduced():
    """x f32\\[8\\]"""
    with jax.set_mesh(mesh):
        x = jnp.dot(put((8, 8), None, "data"), put((8,), "data"), out_sharding=P(None, unreduced={"data"}))
        return x * x  # at


def unreduced_and_reduced_added():
    """x f32\\[8\\].*y f32\\[8\\]"""
    y = put((8,), None)
    with jax.set_mesh(mesh):
        x = jnp.dot(put((8, 8), None, "data"), put((8,), "data"), out_sharding=P(None, unreduced={"data"}))
        return x + y  # at


def product_of_unreduced():
    """x f32\\[8\\]"""
    with jax.set_mesh(mesh):
        x = jnp.dot(put((8, 8), None, "data"), put((8,), "data"), out_sharding=P(None, unreduced={"data"}))
        return x @ x  # at


def reshard_without_a_mesh():
    """x f32\\[8,4\\]"""
    x = jnp.ones((8, 4))
    return reshard(x, P("data"))


def reshard_to_none():
    """x f32\\[8,4\\]"""
    x = put((8, 4), "data", None)
    with jax.set_mesh(mesh):
        return reshard(x, None)  # at


def reshaped_to_unreduced():
    """x f32\\[8,4\\]"""
    x = put((8, 4), "data", None)
    with jax.set_mesh(mesh):
        return jax.lax.reshape(x, (32,), out_sharding=P("data", unreduced={"model"}))  # at


def constraint_on_explicit_axes():
    """x f32\\[8,4\\] P\\('data'"""
    x = put((8, 4), "data", None)
    return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P("model")))


def constraint_on_mixed_axes():
    """x f32\\[8,4\\]"""
    x = put((8, 4), "data", None, over=mixed)
    return jax.lax.with_sharding_constraint(x, NamedSharding(mixed, P("data", "model")))


def out_sharding_on_auto_axes():
    """x f32\\[8,4\\].*y f32\\[4,8\\]"""
    x, y = jnp.ones((8, 4)), jnp.ones((4, 8))
    with jax.set_mesh(auto):
        return jnp.dot(x, y, out_sharding=P("data"))  # at


def out_sharding_of_another_mesh():
    """x f32\\[8,4\\].*y f32\\[4,8\\]"""
    x, y = jnp.ones((8, 4)), jnp.ones((4, 8))
    other = jax.make_mesh((2, 4), ("data", "model"), axis_types=(AxisType.Explicit,) * 2)
    with jax.set_mesh(mesh):
        return jnp.dot(x, y, out_sharding=NamedSharding(other, P("data")))  # at


def counts_on_an_axis():
    """ids i32\\[8\\] P\\('data'"""
    ids = put((8,), "data").astype(int)
    with jax.set_mesh(mesh):
        return jnp.bincount(ids, length=4, out_sharding=P("data"))  # at


def one_hot_with_another_spec():
    """ids i32\\[8\\] P\\('data'"""
    ids = put((8,), "data").astype(int)
    with jax.set_mesh(mesh):
        return jax.nn.one_hot(ids, 4, out_sharding=P("model", None))  # at


def mapped_away_with_different_specs():
    """x f32\\[8,4\\] P\\('data'.*y f32\\[8,4\\] P\\('model'"""
    x, y = put((8, 4), "data", None), put((8, 4), "model", None)
    return jax.vmap(lambda x, y: x + y)(x, y)


def unmapped_and_sharded_alike():
    """x f32\\[8,4\\] P\\('data'.*y f32\\[4\\] P\\('data'"""
    x, y = put((8, 4), "data", None), put((4,), "data")
    return jax.vmap(lambda x, y: x + y, in_axes=(0, None))(x, y)


def explicit_axes_without_a_mesh():
    """x f32\\[8,4\\]|explicit_axes"""
    x = jnp.ones((8, 4))
    return jax.sharding.explicit_axes(lambda x: x, axes="data", in_sharding=P("data"))(x)


def auto_axes_without_an_out_sharding():
    """x f32\\[8,4\\]"""
    x = put((8, 4), "data", None)
    with jax.set_mesh(mesh):
        return jax.sharding.auto_axes(lambda x: x)(x)  # at


def explicit_axes_without_an_in_sharding():
    """x f32\\[8,4\\]"""
    x = put((8, 4), "data", None, over=auto)
    with jax.set_mesh(auto):
        return jax.sharding.explicit_axes(lambda x: x)(x)  # at


def created_on_an_auto_axis():
    """P\\('data'"""
    with jax.set_mesh(auto):
        return jnp.zeros((8, 4), out_sharding=P("data"))  # at


def created_twice_over():
    """out_sharding = P\\('data'\\)"""
    return jnp.zeros((8, 4), device=devices[0], out_sharding=P("data"))


def random_numbers_that_do_not_divide():
    """key"""
    key = jax.random.key(0)
    with jax.set_mesh(mesh):
        return jax.random.normal(key, (6, 4), out_sharding=P("data"))  # at


def closed_over_in_a_map():
    """table f32\\[8,4\\] P\\('data'|x f32\\[8\\]"""
    table, x = put((8, 4), "data", None), put((8,), "data")

    def step(x):
        return x.sum() + table.sum()  # at

    with jax.set_mesh(mesh):
        return jax.jit(jax.shard_map(step, in_specs=P("data"), out_specs=P()))(x)


def in_specs_other_than_the_argument():
    """x f32\\[8,4\\] P\\('data'"""
    x = put((8, 4), "data", None)
    with jax.set_mesh(mesh):
        return jax.jit(jax.shard_map(lambda x: x, in_specs=P(None, "model"), out_specs=P()))(x)  # at


def transposed_convolution_pool():
    """x f32\\[8,16\\] P\\(None, 'data'"""
    x = put((8, 16), None, "data")
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3), (1, 2), "VALID")


def einsum_of_two_layouts():
    """x f32\\[8,4\\] P\\('data'.*y f32\\[8,4\\] P\\('data'"""
    x, y = put((8, 4), "data", None), put((8, 4), "data", None)
    return jnp.einsum("ij,ik->jk", x, y)


def einsum_to_a_spec_without_a_mesh():
    """x f32\\[8,4\\]"""
    x = jnp.ones((8, 4))
    return jnp.einsum("ij,ik->jk", x, x, out_sharding=P("data"))


def scattered_without_a_layout():
    """x f32\\[8,4\\] P\\('data'"""
    x = put((8, 4), "data", None)
    return x.at[jnp.array([0, 1])].set(put((2, 4), None, "data"))


def product_with_other_unreduced_axes():
    """x f32\\[8,8\\] P\\(None, 'data'\\).*w f32\\[8,8\\] P\\('data'"""
    x, w = put((8, 8), None, "data"), put((8, 8), "data", None)
    with jax.set_mesh(mesh):
        return jnp.dot(x, w, out_sharding=P(unreduced={"model"}))  # at


def product_with_unreduced_of_two_specs():
    """x f32\\[8,8\\] P\\(None, 'data'\\).*w f32\\[8,8\\] P\\('model'"""
    x, w = put((8, 8), None, "data"), put((8, 8), "model", None)
    with jax.set_mesh(mesh):
        return jnp.dot(x, w, out_sharding=P(unreduced={"data"}))  # at


def batches_of_a_product():
    """x f32\\[8,4,4\\] P\\('data'.*y f32\\[8,4,4\\] P\\('model'"""
    x, y = put((8, 4, 4), "data", None, None), put((8, 4, 4), "model", None, None)
    return jax.lax.dot_general(x, y, (((2,), (1,)), ((0,), (0,))))


def sorted_with_another_spec():
    """x f32\\[8,4\\] P\\('data'.*y f32\\[8,4\\]"""
    x, y = put((8, 4), "data", None), put((8, 4), "model", None)
    return jax.lax.sort((x, y), dimension=1)


def decomposed_along_its_axis():
    """a f32\\[8,8\\] P\\(None, 'data'"""
    a = put((8, 8), None, "data")
    return jnp.linalg.qr(a)


def eigenvalues_along_its_axis():
    """a f32\\[8,8\\] P\\('data'"""
    a = put((8, 8), "data", None)
    return jax.lax.linalg.eigh(a)


def solved_with_another_batch():
    """a f32\\[8,4,4\\] P\\('data'.*b f32\\[8,4,4\\] P\\('model'"""
    a, b = put((8, 4, 4), "data", None, None), put((8, 4, 4), "model", None, None)
    return jax.lax.linalg.triangular_solve(a, b, left_side=True)


def solved_with_a_sharded_matrix():
    """a f32\\[8,8\\] P\\(None, 'data'"""
    a, b = put((8, 8), None, "data"), put((8, 4), None, None)
    return jax.lax.linalg.triangular_solve(a, b, left_side=True)


def solved_with_a_sharded_right_side():
    """b f32\\[8,4\\] P\\('data'"""
    a, b = put((8, 8), None, None), put((8, 4), "data", None)
    return jax.lax.linalg.triangular_solve(a, b, left_side=True)


def nearest_along_its_axis():
    """x f32\\[8,16\\] P\\(None, 'data'"""
    x = put((8, 16), None, "data")
    return jax.lax.approx_max_k(x, 2)


def gathered_from_two_meshes():
    """table f32\\[16,4\\] P\\('data'.*ids i32\\[8\\]"""
    other = jax.make_mesh((2, 4), ("data", "model"), axis_types=(AxisType.Explicit,) * 2)
    table, ids = put((16, 4), "data", None), put((8,), "data", over=other).astype(int)
    return table[ids]


def any_of_all():
    """x f32\\[8,4\\] P\\('data'"""
    x = put((8, 4), "data", None)
    return jnp.quantile(x, 0.5)


def repeated_by_an_array():
    """x f32\\[8,4\\] P\\('data'"""
    x = put((8, 4), "data", None)
    return jnp.repeat(x, jnp.ones(8, int), axis=0)


def ragged_product():
    """x f32\\[8,4\\] P\\('data'"""
    x, w = put((8, 4), "data", None), put((2, 4, 8), None, None, None)
    return jax.lax.ragged_dot(x, w, jnp.array([4, 4]))


def created_with_one_device():
    """takes a sharding, and gets a value that is not one"""
    return jnp.zeros((8, 4), device=P("data"))
