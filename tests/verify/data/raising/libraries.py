"""flax, equinox, haliax, optax and orbax."""

import tempfile

import equinox as eqx
import flax.linen as nn
import haliax as hax
import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
from flax import jax_utils, nnx
from flax.linen import partitioning
from flax.training.common_utils import shard
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

devices = np.array(jax.devices())
mesh = Mesh(devices.reshape(4, 2), ("data", "model"))
mixed = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Explicit, AxisType.Auto))
x = jax.device_put(jnp.ones((8, 4)), NamedSharding(mesh, P("data")))
Batch, Width = hax.Axis("batch", 8), hax.Axis("width", 4)
named = hax.ones((Batch, Width))


def rows_for_each_device():
    """batch\\['x'\\] f32\\[4,4\\] has size 4, which is not divisible by 8"""
    batch = {"x": np.ones((4, 4), np.float32)}
    shard(batch)


def rows_left_over():
    """batch f32\\[12,4\\] has size 12, which is not divisible by 8"""
    batch = jnp.ones((12, 4))
    batch.reshape(jax.device_count(), -1, 4)


def batch_for_a_replicated_state():
    """w f32\\[8,4\\]|state"""
    state = {"w": x}
    jax.pmap(lambda s, b: s)(jax_utils.replicate(state), jnp.ones((6, 4)))


def layers_without_a_partition_name():
    """nothing names that axis.*metadata_params"""

    class Layer(nn.Module):
        @nn.compact
        def __call__(self, x, _):
            init = nn.with_partitioning(nn.initializers.ones, (None, "model"))
            return nn.Dense(4, kernel_init=init)(x), None

    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            stack = nn.scan(Layer, variable_axes={"params": 0}, split_rngs={"params": True}, length=2)
            return stack()(x, None)  # at

    model = Model()
    model.init(jax.random.key(0), x)


def scanned_length_unknown():
    """x f32"""

    class Layer(nn.Module):
        @nn.compact
        def __call__(self, carry, _):
            return nn.Dense(4)(carry), None

    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.scan(Layer, variable_axes={"params": 0}, split_rngs={"params": True})()(x, None)  # at

    Model().init(jax.random.key(0), x)


def mapped_axes_of_different_sizes():
    """x f32\\[8,4\\]"""

    class Model(nn.Module):
        @nn.compact
        def __call__(self, x, y):
            layer = nn.vmap(nn.Bilinear if hasattr(nn, "Bilinear") else nn.Dense, in_axes=(0, 0),
                            variable_axes={"params": 0}, split_rngs={"params": True})
            return layer(4)(x, y)  # at

    Model().init(jax.random.key(0), x, jnp.ones((6, 4)))


def variable_without_a_mesh():
    """no mesh is in context"""
    rngs = nnx.Rngs(0)
    nnx.Linear(4, 4, kernel_init=nnx.with_partitioning(nnx.initializers.ones, (None, "model")), rngs=rngs)


def variable_on_a_mixed_mesh():
    """Linear|rngs"""
    rngs = nnx.Rngs(0)
    init = nnx.with_partitioning(nnx.initializers.ones, (None, "model"))
    with jax.set_mesh(mixed):
        nnx.Linear(4, 4, kernel_init=init, rngs=rngs)  # at


def variable_that_does_not_divide():
    """Linear|rngs"""
    rngs = nnx.Rngs(0)
    init = nnx.with_partitioning(nnx.initializers.ones, (None, "model"))
    with jax.set_mesh(mesh):
        nnx.Linear(4, 5, kernel_init=init, rngs=rngs)  # at


def carry_twice():
    """x f32\\[8,4\\]"""
    nnx.scan(lambda a, b: (a, b), in_axes=(nnx.Carry, nnx.Carry), out_axes=(nnx.Carry, 0))(1.0, x)


def carry_twice_in_results():
    """x f32\\[8,4\\]"""
    nnx.scan(lambda a, b: (a, b), in_axes=(nnx.Carry, 0), out_axes=(nnx.Carry, nnx.Carry))(1.0, x)


def carry_in_one():
    """x f32\\[8,4\\]"""
    nnx.scan(lambda a, b: b, in_axes=(nnx.Carry, 0), out_axes=0)(1.0, x)


def carry_nested():
    """x f32\\[8,4\\]"""
    nnx.scan(lambda a, b: (a, b), in_axes=((nnx.Carry,), 0), out_axes=(nnx.Carry, 0))((1.0,), x)


def carry_nested_in_results():
    """x f32\\[8,4\\]"""
    nnx.scan(lambda a, b: (a, b), in_axes=(nnx.Carry, 0), out_axes=((nnx.Carry,), 0))(1.0, x)


def result_broadcast():
    """x f32\\[8,4\\]"""
    nnx.scan(lambda a, b: (a, b), in_axes=(nnx.Carry, 0), out_axes=(nnx.Carry, None))(1.0, x)


def carry_for_two_arguments():
    """x f32"""
    nnx.scan(lambda a, b: a, in_axes=nnx.Carry, out_axes=nnx.Carry, length=2)(1.0, x)


def shardings_of_a_state():
    """out_shardings|shardings"""

    def create():
        return nnx.split(nnx.Linear(4, 4, rngs=nnx.Rngs(0)))

    shardings = nnx.get_named_sharding(nnx.eval_shape(create), mesh)
    nnx.jit(create, out_shardings=shardings)()


def filter_jit_with_shardings():
    """in_shardings"""
    eqx.filter_jit(lambda x: x, in_shardings=P("data"))


def filter_jit_donates_another_way():
    """donate='all'"""
    eqx.filter_jit(lambda x: x, donate="everything")


def filter_pmap_with_donated_arguments():
    """`eqx.filter_pmap` does not take this keyword"""
    eqx.filter_pmap(lambda x: x, donate_argnums=(0,))


def filter_pmap_donates_another_way():
    """donate='all'"""
    eqx.filter_pmap(lambda x: x, donate="everything")


def filter_vmap_with_axes_as_a_string():
    """x f32|in_axes"""
    eqx.filter_vmap(lambda x: x, in_axes="data")(x)


def filter_vmap_with_axes_of_another_name():
    """x f32\\[8,4\\]"""
    eqx.filter_vmap(lambda x: x, in_axes={"y": 0})(x)


def filter_vmap_over_nothing():
    """x f32"""
    eqx.filter_vmap(lambda x: x, in_axes=None)(x)


def filter_pmap_with_an_axis_too_many():
    """x f32|out_axes"""
    eqx.filter_pmap(lambda x: x.sum(), out_axes=3)(x)


def filter_pmap_with_out_axes_as_a_string():
    """x f32|out_axes"""
    eqx.filter_pmap(lambda x: x, out_axes="data")(x)


def filter_shard_of_rows_left_over():
    """batch f32\\[6,4\\]"""
    batch = jnp.ones((6, 4))
    eqx.filter_shard(batch, NamedSharding(mesh, P("data")))


def named_and_matmul():
    """named"""
    return named @ named


def named_split_of_another_size():
    """named"""
    named.unflatten_axis("width", (hax.Axis("a", 3), hax.Axis("b", 2)))


def named_broadcast_of_too_few():
    """named"""
    hax.broadcast_to(named, (Batch,), ignore_extra_dims=False) if False else named.broadcast_axis(hax.Axis("batch", 3))


def named_renamed_to_another_size():
    """named"""
    named.rename({Width: hax.Axis("embed", 5)})


def named_axis_missing():
    """named"""
    hax.sum(named, "embed")


def named_axis_not_rearranged():
    """named"""
    named.rearrange(("batch", "embed"))


def named_indexed_by_numbers():
    """named"""
    return named["batch", jnp.ones((2, 2), jnp.int32)]


def named_and_bare():
    """named f32\\[batch=8,width=4\\].*x f32\\[8,4\\]"""
    return named + x


def named_and_another_size():
    """named"""
    other = hax.ones((hax.Axis("batch", 4), Width))
    return named + other


def named_condition_bare():
    """x > 0 bool\\[8,4\\] P\\('data'\\)"""
    return hax.where(x > 0, fill_value=0, new_axis=Batch)


def named_where_bare():
    """named|x f32"""
    return hax.sum(named, where=x > 0)


def named_one_hot_of_a_bare_array():
    """x f32"""
    hax.nn.one_hot(x, Width)


def attention_of_a_bare_array():
    """x f32"""
    hax.nn.attention.dot_product_attention("position", "width", x, named, named)


def named_constraint_without_a_mesh():
    """no mesh is in context"""
    hax.partitioning.round_axis_for_partitioning(Batch, {"batch": "data"})


def named_size_without_a_mesh():
    """no mesh is in context"""
    hax.partitioning.physical_axis_size(Batch, {"batch": "data"})


def named_jit_donates_another_count():
    """named"""
    hax.named_jit(lambda a: a, donate_args=(True, False))(named)


def named_shard_of_an_axis_left_over():
    """named|other"""
    other = hax.ones((hax.Axis("batch", 6), Width))
    with jax.set_mesh(mesh):
        hax.shard(other, {"batch": "data"})  # at


def named_axis_size_differs():
    """x f32\\[8,4\\]"""
    hax.named(x, (Batch, hax.Axis("width", 5)))


def named_axes_too_few():
    """x f32\\[8,4\\]"""
    hax.named(x, (Batch,))


def optimizer_of_other_parameters():
    """grads"""
    tx = optax.adam(0.1)
    state = tx.init({"w": x})
    grads = {"w": x, "b": x}
    tx.update(grads, state)


def restored_with_a_sharding_that_does_not_divide():
    """target|restore"""
    folder = tempfile.mkdtemp() + "/a"
    w = jnp.ones((6, 4))
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(folder, {"w": w})
    target = {"w": jax.ShapeDtypeStruct((6, 4), jnp.float32, sharding=NamedSharding(mesh, P("data")))}
    ocp.StandardCheckpointer().restore(folder, target)


def restored_into_another_tree():
    """target|restore"""
    folder = tempfile.mkdtemp() + "/a"
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(folder, {"w": x})
    target = {"v": jax.ShapeDtypeStruct((8, 4), jnp.float32, sharding=NamedSharding(mesh, P("data")))}
    ocp.StandardCheckpointer().restore(folder, target)


def logical_names_without_a_rule():
    """'batch'|x f32|layouts"""
    with nn.logical_axis_rules([("batch", "data")]), jax.set_mesh(mesh):
        nn.with_logical_constraint(x, ("batch", "embed"), fallback=nn.spmd.RulesFallback.RAISE_ERROR)  # at


def named_index_of_a_bare_array():
    """named f32\\[batch=8,width=4\\]"""
    return named[{"batch": jnp.ones((2, 2), jnp.int32)}]


def named_one_hot_of_floats():
    """one_hot|layouts"""
    scalar = jnp.ones(())
    hax.nn.one_hot(scalar, Width)


def named_norm_of_a_bare_array():
    """x f32"""
    return x + named


def saved_without_a_sharding():
    """restore|folder|layouts"""
    folder = tempfile.mkdtemp() + "/a"
    with ocp.PyTreeCheckpointer() as checkpointer:
        checkpointer.save(folder, {"w": x})
        args = ocp.ArrayRestoreArgs(restore_type=jax.Array, sharding="data")
        checkpointer.restore(folder, restore_args={"w": args})  # at


def restored_with_another_spec():
    """sharding = P\\(None, None, 'data'\\)"""
    folder = tempfile.mkdtemp() + "/a"
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(folder, {"w": x})
    target = {"w": jax.ShapeDtypeStruct((8, 4), jnp.float32, sharding=NamedSharding(mesh, P(None, None, "data")))}
    ocp.StandardCheckpointer().restore(folder, target)


def filter_pmap_with_float_out_axes():
    """x f32\\[8,4\\]"""
    eqx.filter_pmap(lambda x: x, out_axes=lambda leaf: 0.5)(x)


def filter_vmap_of_two_sizes():
    """x f32\\[8,4\\].*w f32\\[6,4\\]"""
    w = jnp.ones((6, 4))
    eqx.filter_vmap(lambda x, w: x)(x, w)


def nnx_scan_of_a_carry_with_many_arguments():
    """x f32\\[8,4\\]"""
    nnx.scan(lambda a, b: a, in_axes=nnx.Carry, out_axes=nnx.Carry, length=2, graph=True)(x, x)
