import tomllib

import jax
import numpy as np
import optax

import dist
import towers


def loader(cfg, n, seed):
    rng = np.random.default_rng(seed)
    proj = np.random.default_rng(7).normal(size=(cfg["towers"]["query_dim"], cfg["towers"]["doc_dim"]))
    for _ in range(n):
        q = rng.normal(size=(cfg["run"]["batch"], cfg["towers"]["query_dim"]))
        yield {"q": q.astype(np.float32), "d": (q @ proj).astype(np.float32)}


def make_step(tx):
    def step(params, opt_state, batch):
        loss, g = jax.value_and_grad(towers.contrastive)(params, batch)
        u, opt_state = tx.update(g, opt_state, params)
        return optax.apply_updates(params, u), opt_state, loss

    return jax.jit(step, donate_argnums=(0, 1))


def evaluate(recall_fn, params, layout, cfg):
    total = []
    for batch in loader(cfg, cfg["run"]["eval_batches"], seed=1):
        total.append(recall_fn(params, batch))  # mistake: missing-shard
    return float(np.mean([np.asarray(t) for t in total]))


def main():
    with open("config.toml", "rb") as f:
        cfg = tomllib.load(f)
    layout = dist.make_layout(cfg["mesh"])
    params = jax.device_put(towers.init(jax.random.key(0), cfg["towers"]), layout.params)
    tx = optax.adam(cfg["run"]["lr"])
    opt_state = tx.init(params)
    step, recall_fn = make_step(tx), jax.jit(towers.recall_at_1)
    for i, batch in enumerate(loader(cfg, cfg["run"]["steps"], seed=0), 1):
        batch = dist.to_devices(batch, layout.batch)
        params, opt_state, loss = step(params, opt_state, batch)
        if i % cfg["run"]["eval_every"] == 0:
            print(i, float(loss), "recall@1", evaluate(recall_fn, params, layout, cfg))


if __name__ == "__main__":
    main()
