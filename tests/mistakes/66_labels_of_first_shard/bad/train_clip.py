import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import AxisType, PartitionSpec as P

from clipmini.contrastive import clip_loss
from clipmini.towers import Clip


def make_loss(model, mesh):
    graphdef, params = nnx.split(model)

    def local(params, images, texts):
        zi, zt, scale = nnx.merge(graphdef, params)(images, texts)
        return clip_loss(zi, zt, scale, "data")

    sharded = jax.shard_map(local, mesh=mesh, in_specs=(P(), P("data"), P("data")), out_specs=P())
    return jax.jit(sharded), params


def main():
    mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))
    model = Clip(rngs=nnx.Rngs(0))
    loss, params = make_loss(model, mesh)
    rng = np.random.default_rng(0)
    images = rng.standard_normal((32, 12), dtype=np.float32)
    texts = rng.standard_normal((32, 20), dtype=np.float32)
    zi, zt, scale = model(images, texts)
    logits = scale * zi @ zt.T
    eye = jnp.arange(32)
    whole = -(jax.nn.log_softmax(logits)[eye, eye].mean() + jax.nn.log_softmax(logits.T)[eye, eye].mean()) / 2
    sharded = loss(params, images, texts)
    print("loss", "agrees" if jnp.allclose(sharded, whole, atol=1e-4) else "differs", float(sharded), float(whole))


if __name__ == "__main__":
    main()
