"""Tiny GRU char LM. Good enough to debug the data pipeline."""
import equinox as eqx
import jax
import jax.numpy as jnp


class CharLM(eqx.Module):
    embed: eqx.nn.Embedding
    cells: tuple[eqx.nn.GRUCell, ...]
    out: eqx.nn.Linear
    dim: int = eqx.field(static=True)

    def __init__(self, vocab, dim, layers, *, key):
        ks = jax.random.split(key, layers + 2)
        self.embed = eqx.nn.Embedding(vocab, dim, key=ks[0])
        self.cells = tuple(eqx.nn.GRUCell(dim, dim, key=k) for k in ks[2:])
        self.out = eqx.nn.Linear(dim, vocab, key=ks[1])
        self.dim = dim

    def __call__(self, tokens):
        xs = jax.vmap(self.embed)(tokens)
        for cell in self.cells:
            def f(h, x, cell=cell):
                h = cell(x, h)
                return h, h

            _, xs = jax.lax.scan(f, jnp.zeros(self.dim), xs)
        return jax.vmap(self.out)(xs)


def nll(model, tokens):
    logits = jax.vmap(model)(tokens[:, :-1])
    logp = jax.nn.log_softmax(logits)
    picked = jnp.take_along_axis(logp, tokens[:, 1:, None], axis=-1)
    return -picked.mean()
