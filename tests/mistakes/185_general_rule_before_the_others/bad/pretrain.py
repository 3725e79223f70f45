import argparse
import functools
import re

import jax
import numpy as np
import optax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import gpt
from rules import GPT_RULES, match, named


def main() -> None:
    ap = argparse.ArgumentParser()
    ap.add_argument("--tensor", type=int, default=8)
    ap.add_argument("--steps", type=int, default=2)
    args = ap.parse_args()
    cfg = gpt.GPTConfig()
    mesh = jax.make_mesh((jax.device_count() // args.tensor, args.tensor), ("fsdp", "tensor"), axis_types=(AxisType.Auto,) * 2)
    tx = optax.sgd(1e-2)
    make = functools.partial(gpt.init, cfg)
    shardings = named(mesh, match(GPT_RULES, jax.eval_shape(make, jax.random.key(0))))
    params = jax.jit(make, out_shardings=shardings)(jax.random.key(0))
    rows = NamedSharding(mesh, P("fsdp"))

    def step(params, ids):
        def loss_fn(p):
            logits = gpt.forward(cfg, p, ids[:, :-1])
            return optax.softmax_cross_entropy_with_integer_labels(logits, ids[:, 1:]).mean()

        loss, grads = jax.value_and_grad(loss_fn)(params)
        updates, _ = tx.update(grads, tx.init(params), params)
        return optax.apply_updates(params, updates), loss

    rng = np.random.default_rng(0)
    ids = jax.device_put(rng.integers(0, cfg.vocab, (16, 65), dtype=np.int32), rows)
    run = jax.jit(step, out_shardings=(shardings, NamedSharding(mesh, P())), donate_argnums=0).lower(params, ids).compile()
    for i in range(args.steps):
        params, loss = run(params, ids)
        print("step", i, "loss", float(loss))
    print("down", params["h0"]["mlp"]["down"]["kernel"].sharding.spec, "attn out", params["h0"]["attn"]["out"]["kernel"].sharding.spec)
    text = run.as_text()
    print({n: len(re.findall(rf"\b{n}(?:-start)?\(", text)) for n in ("all-gather", "all-to-all", "collective-permute", "all-reduce")})


if __name__ == "__main__":
    main()
