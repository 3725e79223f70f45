import argparse

import jax
import numpy as np
import optax
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from layers import LM


def init_model(mesh, vocab, dim, layers):
    abstract = nnx.eval_shape(lambda: LM(vocab, dim, layers, nnx.Rngs(0)))
    graphdef, abstract_state = nnx.split(abstract)
    shardings = nnx.get_named_sharding(abstract_state, mesh)

    def create():
        return nnx.state(LM(vocab, dim, layers, nnx.Rngs(0)))

    state = jax.jit(create, out_shardings=shardings)()
    return nnx.merge(graphdef, state)


@nnx.jit(donate_argnums=(0, 1))
def train_step(model, optimizer, tokens):
    def loss_fn(model):
        logits = model(tokens[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

    loss, grads = nnx.value_and_grad(loss_fn)(model)
    optimizer.update(model, grads)
    return loss


def tokens_from(text: bytes, batch, length, seed):
    data = np.frombuffer(text, np.uint8)
    rng = np.random.default_rng(seed)
    while True:
        at = rng.integers(0, len(data) - length - 1, batch)
        yield np.stack([data[i : i + length + 1] for i in at]).astype(np.int32)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--dim", type=int, default=1024)
    ap.add_argument("--layers", type=int, default=16)
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--length", type=int, default=32)
    ap.add_argument("--steps", type=int, default=5000)
    ap.add_argument("--model-axis", type=int, default=4)
    args = ap.parse_args()

    mesh = Mesh(np.array(jax.devices()).reshape(-1, args.model_axis), ("data", "model"))
    model = init_model(mesh, 256, args.dim, args.layers)
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))
    optimizer = nnx.Optimizer(model, tx, wrt=nnx.Param)

    with open(__file__, "rb") as f:
        stream = tokens_from(f.read(), args.batch, args.length, seed=0)
    rows = NamedSharding(mesh, P("data"))
    with jax.set_mesh(mesh):
        for i in range(args.steps):
            loss = train_step(model, optimizer, jax.device_put(next(stream), rows))
            if i < 10 or i % 100 == 0:
                print(f"{i} {float(loss):.4f}")


if __name__ == "__main__":
    main()
