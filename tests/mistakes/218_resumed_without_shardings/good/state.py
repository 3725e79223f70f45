import jax
import jax.numpy as jnp
import optax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

TX = optax.adamw(1e-3)
MESH = jax.make_mesh((2, 4), ("data", "model"), axis_types=(AxisType.Auto,) * 2)


def init_state(key):
    a, b = jax.random.split(key)
    params = {
        "w1": jax.random.normal(a, (32, 128)) * 32**-0.5,
        "w2": jax.random.normal(b, (128, 32)) * 128**-0.5,
    }
    return {"step": jnp.zeros((), jnp.int32), "params": params, "opt": TX.init(params)}


def _leaf_sharding(path, leaf):
    names = [getattr(k, "key", None) for k in path]
    spec = P(None, "model") if "w1" in names else P("model", None) if "w2" in names else P()
    return NamedSharding(MESH, spec)


def shardings(key=jax.random.key(0)):
    return jax.tree_util.tree_map_with_path(_leaf_sharding, jax.eval_shape(init_state, key))


def fresh(key):
    return jax.jit(init_state, out_shardings=shardings())(key)


def abstract():
    shapes = jax.eval_shape(init_state, jax.random.key(0))
    return jax.tree.map(lambda s, sh: jax.ShapeDtypeStruct(s.shape, s.dtype, sharding=sh), shapes, shardings())
