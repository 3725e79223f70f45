"""Specs, shardings and meshes that do not fit their arrays or each other."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, Sharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

AUTO = (AxisType.Auto,)
devices = np.array(jax.devices())
mesh = Mesh(devices.reshape(4, 2), ("data", "model"))
explicit = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Explicit,) * 2)
rows = NamedSharding(mesh, P("data"))
bias = jnp.ones(6)
params = {"w": jnp.ones((8, 4)), "b": jnp.ones(6)}


def spec_longer_than_its_array():
    """bias f32\\[6\\], from line 14\\n +device = P\\('data', 'model'\\) over data=4 model=2(?!, from)"""
    jax.device_put(bias, NamedSharding(mesh, P("data", "model")))


def spec_longer_than_a_leaf():
    """params\\['b'\\] f32\\[6\\]"""
    shardings = {"w": NamedSharding(mesh, P("data")), "b": NamedSharding(mesh, P("data", "model"))}
    jax.device_put(params, shardings)


def rows_that_do_not_divide():
    """params\\['b'\\] f32\\[6\\]"""
    jax.device_put(params, rows)


def argument_that_does_not_divide():
    """bias f32\\[6\\]"""
    step = jax.jit(lambda x: x * 2, in_shardings=rows)
    step(bias)


def argument_with_fewer_dimensions():
    """bias f32\\[6\\]"""
    step = jax.jit(lambda x: x * 2, in_shardings=NamedSharding(mesh, P("data", None)))
    step(bias)


def result_that_does_not_divide():
    """bias f32\\[6\\]"""
    step = jax.jit(lambda x: x * 2, out_shardings=rows)
    step(bias)


def constraint_that_does_not_divide():
    """bias f32\\[6\\]"""

    def step(x):
        return jax.lax.with_sharding_constraint(x, rows)

    jax.jit(step)(bias)  # at


def axis_of_no_mesh():
    """SL301"""
    NamedSharding(mesh, P("fsdp"))


def axis_twice():
    """'data'"""
    NamedSharding(mesh, P("data", "data"))


def unreduced_axis_of_no_mesh():
    """unreduced=.*'fsdp'"""
    NamedSharding(explicit, P(unreduced={"fsdp"}))


def unreduced_on_an_auto_axis():
    """mesh: data=4 model=2"""
    NamedSharding(mesh, P(unreduced={"data"}))


def reduced_axis_of_no_mesh():
    """reduced=.*'fsdp'"""
    NamedSharding(explicit, P(reduced={"fsdp"}))


def reduced_on_an_auto_axis():
    """mesh: data=4 model=2"""
    NamedSharding(mesh, P(reduced={"data"}))


def unconstrained_on_explicit_axes():
    """explicit: data=4 model=2 \\(Explicit\\)"""
    NamedSharding(explicit, P(P.UNCONSTRAINED, "model"))


def unreduced_none():
    """names an axis twice, or"""
    P("data", unreduced={None})


def reduced_none():
    """names an axis twice, or"""
    P("data", reduced={None})


def unreduced_and_sharded():
    """names an axis twice, or"""
    P("data", unreduced={"data"})


def reduced_and_sharded():
    """names an axis twice, or"""
    P("data", reduced={"data"})


def unreduced_and_reduced():
    """names an axis twice, or"""
    P(None, unreduced={"data"}, reduced={"data"})


def unreduced_as_a_list():
    """names an axis twice, or"""
    P(None, unreduced=["data"])


def entry_of_an_unreduced_spec():
    """spec P\\("""
    spec = P("data", unreduced={"model"})
    return spec[0]


def entries_of_an_unreduced_spec():
    """spec P\\("""
    spec = P("data", unreduced={"model"})
    return tuple(spec)


def unreduced_spec_and_a_tuple():
    """spec P\\("""
    spec = P("data", unreduced={"model"})
    return spec + ("model",)


def reduced_spec_and_a_tuple():
    """spec P\\("""
    spec = P("data", reduced={"model"})
    return spec + ("model",)


def tuple_and_an_unreduced_spec():
    """spec P\\("""
    spec = P("data", unreduced={"model"})
    return ("model",) + spec


def tuple_and_a_reduced_spec():
    """spec P\\("""
    spec = P("data", reduced={"model"})
    return ("model",) + spec


def string_in_place_of_a_sharding():
    """params\\['w'\\]"""
    jax.device_put(params["w"], "data")


def spec_without_a_mesh():
    """params\\['w'\\]|no mesh"""
    jax.device_put(params["w"], P("data"))


def in_spec_without_a_mesh():
    """no mesh"""
    jax.jit(lambda x: x, in_shardings=P("data"))(params["w"])


def constraint_spec_without_a_mesh():
    """x f32\\[8,4\\].*"""

    def step(x):
        return jax.lax.with_sharding_constraint(x, P("data"))  # at

    jax.jit(step)(params["w"])


def out_sharding_without_a_mesh():
    """params\\['w'\\]"""
    jnp.reshape(params["w"], (32,), out_sharding=P("data"))


def out_sharding_of_another_type():
    """params\\['w'\\]"""
    jnp.reshape(params["w"], (32,), out_sharding=SingleDeviceSharding(devices[0]))


def constraint_with_none():
    """params\\['w'\\]"""
    jax.lax.with_sharding_constraint(params["w"], jax.sharding.NamedSharding)


def in_shardings_of_strings():
    """'data'|in_shardings"""
    jax.jit(lambda x: x, in_shardings="data")(params["w"])


def in_shardings_and_keywords():
    """in_shardings|x f32\\[8,4\\]|params\\['w'\\]"""
    step = jax.jit(lambda x: x, in_shardings=rows)
    step(x=params["w"])


def in_shardings_and_a_backend():
    """in_shardings"""
    jax.jit(lambda x: x, in_shardings=rows, backend="cpu")


def out_shardings_and_a_backend():
    """out_shardings"""
    jax.jit(lambda x: x, out_shardings=rows, backend="cpu")


def placed_another_way():
    """in_shardings|x f32\\[8,4\\]"""
    x = jax.device_put(params["w"], NamedSharding(mesh, P(None, "model")))
    step = jax.jit(lambda x: x, in_shardings=rows)
    step(x)


def placed_in_another_memory():
    """x f32\\[8,4\\].*pinned_host"""
    x = jax.device_put(params["w"], rows.with_memory_kind("pinned_host"))
    step = jax.jit(lambda x: x, in_shardings=rows)
    step(x)


def memories_mixed():
    """m f32\\[8,4\\], in host memory.*device_put\\(m,"""
    p = jax.device_put(params["w"], rows)
    moments = jax.device_put(params["w"], rows.with_memory_kind("pinned_host"))

    def step(p, m):
        return p + m  # at

    jax.jit(step)(p, moments)


def two_sets_of_devices():
    """on different devices.*x f32\\[8,4\\]"""
    x = jax.device_put(params["w"], devices[0])
    y = jax.device_put(params["w"], rows)
    return x + y


def context_of_other_devices():
    """x f32\\[8,4\\].*device 0"""
    x = jax.device_put(params["w"], devices[0])
    with jax.set_mesh(mesh):
        return jnp.sin(x)  # at


def short_axis_names():
    """Mesh\\(|devices"""
    Mesh(devices.reshape(4, 2), ("data",))


def axis_named_none():
    """None"""
    Mesh(devices, (None,))


def axis_types_too_many():
    """axis_types"""
    Mesh(devices, ("data",), axis_types=AUTO * 2)


def axis_types_of_strings():
    """'auto'|axis_types"""
    Mesh(devices, ("data",), axis_types=("auto",))


def mesh_too_large():
    """do not fit its devices"""
    jax.make_mesh((8, 2), ("data", "model"))


def device_mesh_too_large():
    """do not fit its devices"""
    from jax.experimental import mesh_utils

    mesh_utils.create_device_mesh((8, 4), devices=list(devices))


def mesh_set_while_traced():
    """set_mesh"""

    def step(x):
        with jax.set_mesh(mesh):  # at
            return x

    jax.jit(step)(params["w"])


def set_mesh_of_an_abstract_mesh():
    """AbstractMesh|abstract"""
    jax.set_mesh(AbstractMesh((8,), ("data",)))


def get_mesh_while_traced():
    """get_mesh"""

    def step(x):
        return x * jax.sharding.get_mesh().size  # at

    jax.jit(step)(params["w"])


def devices_of_an_abstract_mesh():
    """sharding P\\('data',?\\)|device_set"""
    sharding = NamedSharding(AbstractMesh((8,), ("data",)), P("data"))
    return sharding.device_set


def placed_on_an_abstract_mesh():
    """params\\['w'\\]"""
    sharding = NamedSharding(AbstractMesh((8,), ("data",)), P("data"))
    jax.device_put(params["w"], sharding)


def placed_on_an_abstract_mesh_of_another_shape():
    """x f32\\[8,4\\]"""
    x = jax.device_put(params["w"], rows)
    jax.lax.with_sharding_constraint(x, NamedSharding(AbstractMesh((8,), ("data",)), P("data")))


def numpy_on_an_abstract_mesh():
    """batch f32\\[8,4\\]"""
    batch = np.ones((8, 4), np.float32)
    jax.lax.with_sharding_constraint(batch, NamedSharding(AbstractMesh((8,), ("data",)), P("data")))


def sharding_of_a_tracer():
    """x f32\\[8,4\\]|`x"""

    def step(x):
        return x.sharding.spec  # at

    jax.jit(step)(params["w"])


def shards_of_a_tracer():
    """x f32\\[8,4\\]|`x"""

    def step(x):
        return x.addressable_shards  # at

    jax.jit(step)(params["w"])


def data_of_a_tracer():
    """x f32\\[8,4\\]|`x"""

    def step(x):
        return x.addressable_data(0)  # at

    jax.jit(step)(params["w"])


def replicated_tracer():
    """x f32\\[8,4\\]|`x"""

    def step(x):
        return x if x.is_fully_replicated else -x  # at

    jax.jit(step)(params["w"])


def addressable_tracer():
    """x f32\\[8,4\\]|`x"""

    def step(x):
        return x if x.is_fully_addressable else -x  # at

    jax.jit(step)(params["w"])


def deleted_tracer():
    """x f32\\[8,4\\]|`x"""

    def step(x):
        return x if x.is_deleted() else -x  # at

    jax.jit(step)(params["w"])


def shards_of_a_tracer_by_another_name():
    """x f32\\[8,4\\]|`x"""

    def step(x):
        return x.global_shards  # at

    jax.jit(step)(params["w"])


def device_buffer():
    """`?x"""
    x = params["w"]
    return x.device_buffer


def shape_with_a_string():
    """takes a sharding, and gets a value that is not one"""
    jax.ShapeDtypeStruct((8, 4), jnp.float32, sharding="data")


def array_of_too_few_parts():
    """parts|arrays"""
    parts = [jnp.ones((2, 4)) for _ in range(2)]
    jax.make_array_from_single_device_arrays((8, 4), rows, parts)


def array_of_parts_of_another_shape():
    """parts\\[0\\] f32\\[3,4\\]"""
    whole = NamedSharding(Mesh(devices, ("data",)), P("data"))
    parts = [jax.device_put(jnp.ones((3, 4)), device) for device in devices]
    jax.make_array_from_single_device_arrays((16, 4), whole, parts)


def array_of_sharded_parts():
    """parts\\[0\\] f32\\[8,4\\]"""
    parts = [jax.device_put(jnp.ones((8, 4)), rows)] * 8
    jax.make_array_from_single_device_arrays((8, 4), rows, parts)


def array_from_a_callback_with_a_spec():
    """takes a sharding, and gets a value that is not one"""
    jax.make_array_from_callback((8, 4), P("data"), lambda index: np.ones((2, 4)))


def buffer_of_a_sharded_array():
    """x f32\\[8,4\\].*P\\('data'"""
    x = jax.device_put(params["w"], rows)
    return x.unsafe_buffer_pointer()


def dlpack_of_a_sharded_array():
    """x f32\\[8,4\\].*P\\('data'"""
    x = jax.device_put(params["w"], rows)
    return x.__dlpack__()


def dlpack_onto_many_devices():
    """rows P\\('data',?\\)"""
    jax.dlpack.from_dlpack(np.ones((8, 4), np.float32), device=rows)


def donated_and_read():
    """x f32\\[8,4\\]"""
    x = jax.device_put(params["w"], rows)
    x.delete()
    return x + 1


def donated_and_aliased():
    """donate"""
    jax.device_put(params["w"], rows, donate=True, may_alias=True)


def donated_and_static():
    """donate_argnums"""
    jax.jit(lambda x, n: x, static_argnums=(1,), donate_argnums=(1,))


def donated_and_static_by_name():
    """donate_argnames"""
    jax.jit(lambda x, n: x, static_argnames=("n",), donate_argnames=("n",))


def strings_on_devices():
    """names|sharding"""
    names = np.array(["a", "b"], dtype=np.dtypes.StringDType())
    jax.device_put(names, "data")


def shards_that_are_none():
    """5"""
    jax.device_put_sharded(5, list(devices))


def shards_for_other_devices():
    """batch\\[0\\]|2"""
    batch = [jnp.ones(4)] * 2
    jax.device_put_sharded(batch, list(devices))


def shards_of_different_shapes():
    """batch\\[1\\] f32\\[5\\]"""
    batch = [jnp.ones(4), jnp.ones(5)]
    jax.device_put_sharded(batch, list(devices[:2]))


def replicated_over_no_device():
    """devices"""
    jax.device_put_replicated(params["w"], [])


def drawn_of_three_dimensions():
    """x f32\\[2,2,2\\]"""
    x = jnp.ones((2, 2, 2))
    jax.debug.visualize_array_sharding(x)


def squeezed_rows():
    """x f32\\[8,4\\]"""
    x = jax.device_put(params["w"], rows)
    return jnp.squeeze(x, axis=0)


def in_shardings_for_another_tree():
    """in_shardings"""
    step = jax.jit(lambda tree: tree, in_shardings=({"w": rows},))
    step(params)


def out_shardings_for_another_tree():
    """out_shardings"""
    step = jax.jit(lambda tree: tree, out_shardings={"w": rows})
    step(params)


def shardings_for_another_tree():
    """params\\['w'\\] f32"""
    jax.device_put(params, {"w": rows})


def no_sharding_at_all():
    """`?x|sharding"""
    x = jnp.zeros((8, 4))
    Sharding.shard_shape(rows, x.shape[:1] + (3,))
    rows.shard_shape((6, 4))


def compiled_with_another_sharding():
    """y f32\\[8,4\\]"""
    x = jax.device_put(params["w"], rows)
    y = jax.device_put(params["w"], NamedSharding(mesh, P("model")))
    step = jax.jit(lambda x: x * 2).lower(x).compile()
    step(y)


def mapped_spmd_axis_in_the_constraint():
    """x f32"""

    def step(x):
        return jax.lax.with_sharding_constraint(x, rows)  # at

    jax.jit(jax.vmap(step, spmd_axis_name="data"))(jnp.ones((8, 4, 2)))


def mapped_spmd_axis_without_a_mesh():
    """x f32"""
    x = jnp.ones((8, 4))
    jax.vmap(jax.jit(lambda x: x, in_shardings=P("data")), spmd_axis_name="data")(x)


def mesh_entered_twice():
    """mesh|layouts"""
    other = Mesh(devices, ("data",))
    with mesh, other:
        jax.jit(lambda x: x, in_shardings=P("model"))(params["w"])  # at


def numpy_for_a_sharded_argument():
    """batch f32\\[8,4\\]|layouts"""
    batch = np.ones((6, 4), np.float32)
    jax.jit(lambda x: x, in_shardings=NamedSharding(mesh, P("data")))(batch)


def abstract_devices():
    """sharding P\\('data'"""
    sharding = NamedSharding(AbstractMesh((8,), ("data",)), P("data"))
    return sharding.addressable_devices


def abstract_mesh_of_another_size():
    """other|params\\['w'\\]|mesh"""
    small = AbstractMesh((2,), ("data",))
    with jax.sharding.use_abstract_mesh(small):
        jax.jit(lambda x: x * 2)(jax.device_put(params["w"], rows))


def use_abstract_mesh_of_a_mesh():
    """mesh: data=4 model=2"""
    with jax.sharding.use_abstract_mesh(mesh):
        return 1


def shards_as_buffers():
    """x f32|x"""
    x = params["w"]
    return x.device_buffers


def memory_of_a_tracer():
    """x f32\\[8,4\\]"""

    def step(x):
        return x.memory_space  # at

    jax.jit(step)(params["w"])


def shape_with_a_memory_kind():
    """takes a sharding, and gets a value that is not one.*x f32\\[8,4\\]"""
    jax.jit(lambda x: jax.lax.with_sharding_constraint(x, "pinned_host"))(params["w"])


def parts_without_a_dtype():
    """rows P\\('data'|parts|layouts"""
    jax.make_array_from_single_device_arrays((8, 4), rows, [jnp.ones((2, 4))] * 8, dtype=jnp.int32)


def callback_on_another_device():
    """x f32\\[8,4\\]"""
    x = params["w"]

    def step(x):
        one = SingleDeviceSharding(devices[7])
        return jax.pure_callback(lambda x: x, x, x, sharding=one)

    jax.jit(step)(x)  # at


def layout_of_a_tracer_on_auto_axes():
    """params\\['w'\\]|x f32"""
    from jax.experimental.layout import Format, Layout

    jax.device_put(params["w"], Format(Layout((0, 1)), None))
