import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from seq import specs
from seq.data import Corpus


def init_params(key, vocab, dim):
    a, b = jax.random.split(key)
    return {"embed": jax.random.normal(a, (vocab, dim)), "out": jax.random.normal(b, (dim, vocab))}


def step(params, batch):
    def loss(params):
        logits = params["embed"][batch["inputs"]] @ params["out"]
        logp = jax.nn.log_softmax(logits)
        nll = -jnp.take_along_axis(logp, batch["targets"][..., None], -1)[..., 0]
        total = jax.lax.psum((nll * batch["weights"]).sum(), "data")
        return total / jax.lax.psum(batch["weights"].sum(), "data")

    value, grads = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value


def main():
    from jax.sharding import PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("data",))
    train = jax.jit(
        jax.shard_map(step, mesh=mesh, in_specs=(specs.PARAMS, specs.BATCH), out_specs=(specs.PARAMS, P()))
    )
    corpus = Corpus(vocab=32, length=6)
    params = init_params(jax.random.key(0), 32, 8)
    for _ in range(3):
        params, loss = train(params, corpus.batch(16))
    print("trained to", float(loss))


if __name__ == "__main__":
    main()
