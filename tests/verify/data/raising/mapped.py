"""shard_map, pmap, vmap and collectives."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

devices = np.array(jax.devices())
mesh = Mesh(devices.reshape(4, 2), ("data", "model"))
x = jax.device_put(jnp.ones((8, 4)), NamedSharding(mesh, P("data")))
row = functools.partial(jax.shard_map, mesh=mesh, in_specs=P("data"), out_specs=P("data"))
w = jnp.ones((6, 4))


def spec_longer_than_the_argument():
    """w f32\\[6,4\\]"""
    jax.shard_map(lambda w: w, mesh=mesh, in_specs=P(None, None, "data"), out_specs=P())(w)


def argument_that_does_not_divide():
    """w f32\\[6,4\\]"""
    row(lambda w: w)(w)


def result_longer_than_its_spec():
    """x f32\\[8,4\\]"""
    jax.shard_map(lambda x: x.sum(), mesh=mesh, in_specs=P("data"), out_specs=P("data"))(x)


def result_that_varies():
    """x f32\\[8,4\\]"""
    jax.shard_map(lambda x: x, mesh=mesh, in_specs=P("data"), out_specs=P())(x)


def in_specs_for_another_tree():
    """in_specs"""
    jax.shard_map(lambda x: x, mesh=mesh, in_specs=(P(), P()), out_specs=P())(x)


def out_specs_for_another_tree():
    """out_specs"""
    jax.shard_map(lambda x: x, mesh=mesh, in_specs=P("data"), out_specs=(P("data"), P()))(x)


def specs_of_strings():
    """x f32\\[8,4\\]"""
    jax.shard_map(lambda x: x, mesh=mesh, in_specs=("data",), out_specs=P())(x)


def specs_of_an_axis_that_stays_auto():
    """in_specs P\\('model'\\)"""
    f = jax.shard_map(lambda x: x, mesh=mesh, in_specs=P("model"), out_specs=P("model"), axis_names={"data"})
    f(x)


def axis_names_of_another_mesh():
    """axis_names"""
    jax.shard_map(lambda x: x, mesh=mesh, in_specs=P(), out_specs=P(), axis_names={"fsdp"})(x)


def axis_names_as_a_tuple():
    """axis_names"""
    jax.shard_map(lambda x: x, mesh=mesh, in_specs=P(), out_specs=P(), axis_names=("data",))(x)


def mesh_of_another_type():
    """mesh"""
    jax.shard_map(lambda x: x, mesh=("data",), in_specs=P(), out_specs=P())(x)


def map_of_no_function():
    """shard_map"""
    jax.shard_map(x, mesh=mesh, in_specs=P(), out_specs=P())(x)


def map_without_a_mesh():
    """no mesh"""
    jax.shard_map(lambda x: x, in_specs=P("data"), out_specs=P("data"))(x)


def map_under_another_mesh():
    """x f32\\[8,4\\]"""
    other = Mesh(devices, ("data",))
    with jax.set_mesh(other):
        row(lambda x: x)(x)  # at


def map_over_devices_of_another_mesh():
    """x f32\\[8,4\\]"""
    x = jax.device_put(jnp.ones((8, 4)), NamedSharding(Mesh(devices[:4], ("data",)), P("data")))
    row(lambda x: x)(x)


def abstract_mesh_and_one_device():
    """y f32\\[8,4\\]"""
    y = jnp.ones((8, 4))
    jax.shard_map(lambda x: x, mesh=mesh.abstract_mesh, in_specs=P("data"), out_specs=P("data"))(y)


def abstract_mesh_of_another_shape():
    """x f32\\[8,4\\]"""
    other = jax.sharding.AbstractMesh((8,), ("data",))
    jax.shard_map(lambda x: x, mesh=other, in_specs=P("data"), out_specs=P("data"))(x)


def unreduced_specs_over_auto_axes():
    """in_specs|x f32"""
    jax.shard_map(lambda x: x, mesh=mesh, in_specs=P(unreduced={"data"}), out_specs=P("data"))(x)


def carry_that_varies_later():
    """starts with a value that is equal.*pcast\\(0\\.0, 'data', to='varying'\\)"""

    def step(x):
        return lax.scan(lambda total, one: (total + one.sum(), None), 0.0, x)[0][None]  # at

    row(step)(x)


def loop_that_varies_later():
    """x (f32|float32)\\[2,4\\]|0.0|fori_loop"""

    def step(x):
        return lax.fori_loop(0, 3, lambda _, total: total + x.sum(), 0.0)[None]  # at

    row(step)(x)


def while_that_varies_later():
    """while_loop"""

    def step(x):
        return lax.while_loop(lambda total: total < 3, lambda total: total + x.sum(), 0.0)[None]  # at

    row(step)(x)


def branches_that_vary_differently():
    """x (f32|float32)\\[2,4\\]"""

    def step(x):
        return lax.cond(True, lambda x: x, lambda x: jnp.ones((2, 4)), x)  # at

    row(step)(x)


def axis_of_another_mesh_reduced():
    """x f32\\[2,4\\]"""

    def step(x):
        return lax.psum(x, "fsdp")  # at

    row(step)(x)


def reduced_outside_of_a_map():
    """x f32\\[8,4\\]|'data'"""
    lax.psum(x, "data")


def index_outside_of_a_map():
    """'data'"""
    lax.axis_index("data")


def size_outside_of_a_map():
    """'data'"""
    lax.axis_size("data")


def gathered_outside_of_a_map():
    """'data'"""
    lax.all_gather(x, "data")


def exchanged_outside_of_a_map():
    """'data'"""
    lax.all_to_all(x, "data", 0, 0)


def varied_twice():
    """x (f32|float32)"""

    def step(x):
        return lax.pcast(x, "data", to="varying")  # at

    row(step)(x)


def varied_on_nothing():
    """x (f32|float32)"""

    def step(x):
        return lax.pcast(x, "data", to="reduced")  # at

    row(step)(x)


def varied_outside_of_a_map():
    """x f32"""
    lax.pcast(x, "data", to="varying")


def scattered_rows_that_do_not_divide():
    """x (f32|float32)\\[2,4\\]"""

    def step(x):
        return lax.psum_scatter(x, "data", tiled=True)  # at

    row(step)(x)


def scattered_rows_of_another_count():
    """x (f32|float32)\\[2,4\\]"""

    def step(x):
        return lax.psum_scatter(x, "data")  # at

    row(step)(x)


def exchanged_rows_that_do_not_divide():
    """x (f32|float32)\\[2,4\\]"""

    def step(x):
        return lax.all_to_all(x, "data", 0, 1, tiled=True)  # at

    row(step)(x)


def permuted_over_two_axes():
    """x (f32|float32)"""

    def step(x):
        return lax.ppermute(x, ("model", "data"), [(0, 1)])  # at

    row(step)(x)


def index_of_the_least_over_two_axes():
    """x (f32|float32)"""

    def step(x):
        return lax.pargmin(x, ("data", "model"))  # at

    jax.vmap(step, axis_name="data")(x)


def device_in_a_map():
    """x (f32|float32)"""

    def step(x):
        return jax.device_put(x, devices[0])  # at

    row(step)(x)


def constraint_in_a_map():
    """x (f32|float32)"""

    def step(x):
        return lax.with_sharding_constraint(x, NamedSharding(mesh, P("data")))  # at

    jax.jit(row(step))(x)


def random_key_that_does_not_vary():
    """key"""

    def step(x):
        key = jax.random.key(0)
        return jax.random.gamma(key, x)  # at

    row(step)(x)


def two_maps_within_each_other():
    """x (f32|float32)"""

    def inner(x):
        return x

    def step(x):
        return row(inner)(x)  # at

    row(step)(x)


def mapped_twice_over_one_axis():
    """in_specs P\\('data'\\)"""
    jax.vmap(row(lambda x: x), spmd_axis_name="data")(jnp.ones((8, 8, 4)))


def nan_in_a_map():
    """x f32|y"""
    y = x * 0
    with jax.debug_nans(True):
        row(lambda x: x / x)(y)  # at


def map_over_rows_of_another_count():
    """x f32\\[8,4\\].*w f32\\[6,4\\]"""
    jax.vmap(lambda x, w: x)(x, w)


def map_over_a_scalar():
    """maps a dimension that its arguments"""
    jax.vmap(lambda x: x)(1.0)


def map_over_nothing():
    """x f32|in_axes"""
    jax.vmap(lambda x: x, in_axes=None)(x)


def map_with_axes_as_a_string():
    """x f32\\[8,4\\]"""
    jax.vmap(lambda x: x, in_axes="data")(x)


def map_with_out_axes_as_a_string():
    """out_axes"""
    jax.vmap(lambda x: x, out_axes="data")(x)


def map_without_arguments():
    """maps a dimension that its arguments"""
    jax.vmap(lambda: 1)()


def map_with_an_unmapped_result():
    """x f32\\[8,4\\]"""
    jax.vmap(lambda x: x, out_axes=None)(x)


def scalar_for_pmap():
    """count"""
    count = jnp.ones(())
    jax.pmap(lambda count: count)(count)


def mixed_rows_for_pmap():
    """w f32\\[6,4\\]"""
    jax.pmap(lambda x, w: x)(x, w)


def pmap_over_nothing():
    """w f32\\[6,4\\]"""
    jax.pmap(lambda w: w, in_axes=None)(w)


def pmap_with_axes_as_a_string():
    """w f32\\[6,4\\]"""
    jax.pmap(lambda w: w, in_axes="data")(w)


def pmap_with_out_axes_as_a_string():
    """w f32\\[6,4\\]"""
    jax.pmap(lambda w: w, out_axes="data")(w)


def pmap_on_no_device():
    """w f32\\[6,4\\]"""
    jax.pmap(lambda w: w, devices=[])(w)


def pmap_of_another_size():
    """axis_size|x f32\\[8,4\\]"""
    jax.pmap(lambda x: x, axis_size=4)(x)


def pmap_without_its_static_argument():
    """static_broadcasted_argnums|x f32\\[8,4\\]"""
    jax.pmap(lambda x, n: x, static_broadcasted_argnums=(1,))(x)


def pmap_with_more_rows_than_devices():
    """batch f32\\[16,4\\]"""
    batch = jnp.ones((16, 4))
    jax.pmap(lambda batch: batch)(batch)


def smap_of_two_axes():
    """smap|axis_name"""
    with jax.set_mesh(mesh):
        jax.smap(lambda x: x, in_axes=0, out_axes=0, axis_name=["data"])(x)  # at


def smap_with_axes_as_a_string():
    """in_axes"""
    with jax.set_mesh(mesh):
        jax.smap(lambda x: x, in_axes="data", out_axes=0, axis_name="data")(x)  # at


def smap_with_out_axes_as_a_string():
    """out_axes"""
    with jax.set_mesh(mesh):
        jax.smap(lambda x: x, in_axes=0, out_axes="data", axis_name="data")(x)  # at


def callback_with_many_devices():
    """sharding|x f32"""

    def step(x):
        return jax.pure_callback(lambda x: x, x, x, sharding=NamedSharding(mesh, P()))

    jax.jit(step)(x)  # at


def callback_in_a_partial_map():
    """x (f32|float32)"""

    def step(x):
        return jax.pure_callback(lambda x: x, jax.typeof(x), x)

    f = jax.shard_map(step, mesh=mesh, in_specs=P("data"), out_specs=P("data"), axis_names={"data"})
    jax.jit(f)(x)  # at


def gathered_by_processes():
    """None"""
    from jax.experimental import multihost_utils

    multihost_utils.host_local_array_to_global_array(x, mesh, None)


def gathered_to_hosts():
    """None"""
    from jax.experimental import multihost_utils

    multihost_utils.global_array_to_host_local_array(x, mesh, None)


def unreduced_where_it_varies():
    """x f32\\[2,4\\]"""

    def step(x):
        return lax.pcast(x, "model", to="unreduced")  # at

    row(step)(x)


def reduced_where_it_varies():
    """x f32\\[2,4\\]"""

    def step(x):
        return lax.pcast(x, "data", to="invarying")  # at

    row(step)(x)


def branches_of_different_trees():
    """x f32\\[2,4\\]"""

    def step(x):
        return lax.cond(True, lambda x: (x, x), lambda x: x, x)  # at

    row(step)(x)


def carry_of_another_tree():
    """x f32\\[2,4\\]"""

    def step(x):
        return lax.scan(lambda total, one: ((total, total), None), x, None, length=2)  # at

    row(step)(x)


def out_specs_of_a_mapped_axis():
    """out_specs|jax.vmap"""
    f = jax.shard_map(lambda x: x, mesh=mesh, in_specs=P(None, "model"), out_specs=P("data", "model"))
    jax.vmap(f, spmd_axis_name="data")(jnp.ones((8, 8, 4)))


def empty_mesh():
    """x f32\\[8,4\\]"""
    jax.shard_map(lambda x: x, mesh=Mesh(np.empty((), dtype=object), ()), in_specs=P(), out_specs=P())(x)


def reference_given_to_a_map():
    """ref f32\\[8,4\\]"""
    ref = jax.new_ref(x)
    jax.shard_map(lambda ref: ref[...], mesh=mesh, in_specs=P("data"), out_specs=P("data"))(ref)


def arrays_of_different_processes():
    """x f32\\[8,4\\]"""
    from jax.experimental import multihost_utils

    multihost_utils.process_allgather(x, tiled=False)
    lax.all_gather(x, axis_name=("data", "fsdp"))  # at


def scattered_over_groups():
    """x f32\\[2,4\\]"""

    def step(x):
        return lax.psum_scatter(x, ("data", "model"), tiled=True)  # at

    row(step)(x)


def axis_index_of_two_axes():
    """x f32\\[2,4\\]|'data'|layouts"""

    def step(x):
        return x + lax.axis_index(("data", "fsdp"))  # at

    row(step)(x)


def mapped_values_of_another_kind():
    """rows|layouts"""
    rows = {"x": x, "name": "train"}
    jax.vmap(lambda rows: rows["x"])(rows)
