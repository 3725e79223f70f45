import jax
from jax.sharding import NamedSharding, PartitionSpec as P


def forward(weights, x):
    return jax.nn.relu(x @ weights["in"]) @ weights["out"]


def make_weights(settings, mesh):
    """The same on all devices, if the key is."""
    def draw(key):
        one, two = jax.random.split(key)
        shape = settings.width, settings.width
        return {"in": jax.random.normal(one, shape), "out": jax.random.normal(two, shape)}

    key = jax.random.PRNGKey(settings.used_seed())
    return jax.jit(draw, out_shardings=NamedSharding(mesh, P()))(key)
