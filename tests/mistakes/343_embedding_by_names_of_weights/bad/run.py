import flax.linen as nn
import jax
import jax.numpy as jnp
from layers import Embed, Mlp

RULES = (
    ("activation_batch", "data"),
    ("activation_length", None),
    ("activation_mlp", "tensor"),
    ("vocab", "tensor"),
    ("mlp", "tensor"),
    ("embed", None),
)


class Net(nn.Module):
    @nn.compact
    def __call__(self, tokens):
        x = Embed(64, 16)(tokens)
        jax.debug.inspect_array_sharding(x, callback=lambda s: print("rows of a shard:", s.shard_shape(x.shape)[0]))
        return Mlp(32)(x)


def main():
    mesh = jax.make_mesh((4, 2), ("data", "tensor"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    tokens = jnp.arange(64).reshape(8, 8)
    with jax.set_mesh(mesh), nn.logical_axis_rules(RULES):
        variables = nn.unbox(Net().init(jax.random.key(0), tokens))
        apply = jax.jit(Net().apply)
        out = apply(variables, tokens)
    return out


if __name__ == "__main__":
    main()
