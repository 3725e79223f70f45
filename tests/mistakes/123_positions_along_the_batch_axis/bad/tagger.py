"""Sequence tagger: token + learned position embeddings, then a linear tag head."""
import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P


class Tagger:
    def __init__(self, cfg, mesh, tags):
        self.cfg = cfg
        self.mesh = mesh
        self.tags = tags

    def init(self):
        k = jax.random.split(jax.random.key(self.cfg.seed), 3)
        c = self.cfg
        return {
            "tok": jax.random.normal(k[0], (c.vocab, c.width)),
            "pos": jax.random.normal(k[1], (c.max_len, c.width)),
            "head": jax.random.normal(k[2], (c.width, self.tags)) * c.width**-0.5,
        }

    def _positions(self, table, length):
        start = lax.axis_index("data") * length  # mistake: axis-index-of-other-axis
        return lax.dynamic_slice_in_dim(table, start, length, axis=0)

    def _local(self, params, tokens):
        x = params["tok"][tokens] + self._positions(params["pos"], tokens.shape[1])
        context = lax.pmean(x.mean(axis=1, keepdims=True), "seq")
        return jnp.tanh(x + context) @ params["head"]

    def _local_loss(self, params, tokens, labels):
        logp = jax.nn.log_softmax(self._local(params, tokens))
        nll = -jnp.take_along_axis(logp, labels[..., None], axis=-1)
        return lax.pmean(nll.mean(), ("data", "seq"))

    @functools.cached_property
    def loss(self):
        grid = P("data", "seq")
        return jax.shard_map(
            self._local_loss, mesh=self.mesh, in_specs=(P(), grid, grid), out_specs=P()
        )

    @functools.cached_property
    def logits(self):
        grid = P("data", "seq")
        return jax.shard_map(
            self._local, mesh=self.mesh, in_specs=(P(), grid), out_specs=P("data", "seq")
        )
