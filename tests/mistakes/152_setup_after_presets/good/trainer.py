from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from cluster import log


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        devices = np.array(jax.devices()).reshape(-1, cfg.fsdp)
        self.mesh = Mesh(devices, ("dp", "fsdp"))
        self.rows = NamedSharding(self.mesh, P("fsdp"))
        self.batch = NamedSharding(self.mesh, P(("dp", "fsdp")))
        self.tx = optax.lion(cfg.lr)

    def init(self, key):
        c = self.cfg
        a, b, d = jax.random.split(key, 3)
        n = jax.nn.initializers.normal(0.02)
        return {
            "emb": n(a, (c.vocab, c.dim)),
            "conv": n(b, (4 * c.dim, c.dim)),
            "out": n(d, (c.dim, c.vocab)),
        }

    def loss(self, p, tokens):
        x = p["emb"][tokens[:, :-1]]
        x = jnp.pad(x, ((0, 0), (3, 0), (0, 0)))
        t = tokens.shape[1] - 1
        window = jnp.concatenate([x[:, i : i + t] for i in range(4)], -1)
        logits = jax.nn.gelu(window @ p["conv"]) @ p["out"]
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

    def local_tokens(self, step):
        c = self.cfg
        rng = np.random.default_rng((step, jax.process_index()))
        rows = c.global_batch // jax.process_count()
        return rng.integers(0, c.vocab, (rows, c.context + 1), dtype=np.int32)

    def run(self):
        params = jax.jit(self.init, out_shardings=self.rows)(jax.random.key(0))
        opt = self.tx.init(params)

        @partial(jax.jit, donate_argnums=(0, 1))
        def step(params, opt, tokens):
            loss, grads = jax.value_and_grad(self.loss)(params, tokens)
            updates, opt = self.tx.update(grads, opt, params)
            params = optax.apply_updates(params, updates)
            return jax.lax.with_sharding_constraint(params, self.rows), opt, loss

        for i in range(self.cfg.steps):
            tokens = jax.make_array_from_process_local_data(self.batch, self.local_tokens(i))
            params, opt, loss = step(params, opt, tokens)
            log(i, float(loss))
