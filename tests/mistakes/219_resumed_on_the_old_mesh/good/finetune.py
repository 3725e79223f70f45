import argparse
import tempfile

import jax
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from ckpt import Checkpoints, abstract_like
from model import forward, init_params, param_specs


TX = optax.adamw(1e-4)


def get_mesh(fsdp):
    return Mesh(np.array(jax.devices()).reshape(fsdp, -1), ("fsdp", "tp"))


def state_shardings(init, specs, mesh, key):
    """optimizer moments follow their param, everything else is replicated"""
    shapes = jax.eval_shape(init, key)
    named = lambda s: NamedSharding(mesh, s)
    params = jax.tree.map(named, specs, is_leaf=lambda s: isinstance(s, P))
    opt = optax.tree_map_params(
        TX, lambda _, s: s, shapes["opt"], params,
        transform_non_params=lambda _: named(P()),
    )
    return {"params": params, "opt": opt}


def train(state, step_fn, data, start, stop, ckpts):
    for i in range(start, stop):
        state, loss = step_fn(state, data(i))
        print(f"step {i} loss {float(loss):.4f}")
        ckpts.save(i, state)
    return state


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--tiny", action="store_true")
    ap.add_argument("--dir", default=None)
    args = ap.parse_args()
    vocab, d, n, batch, seq = (64, 32, 2, 16, 8) if args.tiny else (32_000, 4096, 32, 256, 2048)
    directory = args.dir or tempfile.mkdtemp()

    def loss_fn(p, tokens):
        logits = forward(p, tokens[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

    def init(key):
        params = init_params(key, vocab, d, n)
        return {"params": params, "opt": TX.init(params)}

    def step(state, tokens):
        loss, g = jax.value_and_grad(loss_fn)(state["params"], tokens)
        upd, opt = TX.update(g, state["opt"], state["params"])
        return {"params": optax.apply_updates(state["params"], upd), "opt": opt}, loss

    key = jax.random.key(0)
    # pretraining ran with fsdp=8, finetuning with fsdp=2: the checkpoint has to be resharded
    for phase, (fsdp, start, stop) in enumerate([(8, 0, 2), (2, 2, 4)]):
        mesh = get_mesh(fsdp)
        shardings = state_shardings(init, param_specs(n), mesh, key)
        batch_sharding = NamedSharding(mesh, P("fsdp"))
        step_fn = jax.jit(step, donate_argnums=0, out_shardings=(shardings, None))

        def data(i):
            rng = np.random.default_rng(i)
            return jax.device_put(rng.integers(0, vocab, (batch, seq + 1), dtype=np.int32), batch_sharding)

        ckpts = Checkpoints(directory, every=1)
        if ckpts.latest() is None:
            state = jax.jit(init, out_shardings=shardings)(key)
        else:
            state = ckpts.restore(abstract_like(init, shardings, key))
        train(state, step_fn, data, start, stop, ckpts)
        ckpts.close()


if __name__ == "__main__":
    main()
