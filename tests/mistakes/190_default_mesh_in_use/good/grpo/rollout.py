import jax
import jax.numpy as jnp
from flax import nnx


@nnx.jit(static_argnames=("new",))
def generate(policy, prompts, key, new: int):
    b, t = prompts.shape
    tokens = jnp.pad(prompts, ((0, 0), (0, new)))
    graph, state = nnx.split(policy)

    def body(i, tokens):
        logits = nnx.merge(graph, state)(tokens)
        nxt = jax.random.categorical(jax.random.fold_in(key, i), logits[:, t + i - 1])
        return tokens.at[:, t + i].set(nxt.astype(tokens.dtype))

    return jax.lax.fori_loop(0, new, body, tokens)


def reward(tokens, prompt_len):
    """likes repeating the last prompt token"""
    return (tokens[:, prompt_len:] == tokens[:, prompt_len - 1 : prompt_len]).mean(-1)


def advantages(r, group):
    r = r.reshape(-1, group)
    return ((r - r.mean(1, keepdims=True)) / (r.std(1, keepdims=True) + 1e-4)).reshape(-1)
