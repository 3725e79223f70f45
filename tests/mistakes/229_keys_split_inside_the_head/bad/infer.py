import argparse
import re

import jax
import jax.numpy as jnp

from params import Block, init_block
from sharding import shard_block


def attend(block: Block, x: jax.Array) -> jax.Array:
    q = jnp.einsum("btm,mhk->bhtk", x, block.attn.q_proj)
    k = jnp.einsum("bsm,mhk->bhsk", x, block.attn.k_proj)
    v = jnp.einsum("bsm,mhk->bhsk", x, block.attn.v_proj)
    scores = jnp.einsum("bhtk,bhsk->bhts", q, k) * q.shape[-1] ** -0.5
    mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    probs = jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1)
    return jnp.einsum("bhts,bhsk,hkm->btm", probs, v, block.attn.out_proj)


@jax.jit
def forward(block: Block, x: jax.Array) -> jax.Array:
    x = x + attend(block, x)
    return x + jax.nn.silu(x @ block.gate) @ block.down


def count_collectives(text: str) -> dict:
    names = ("all-reduce", "all-gather", "all-to-all", "collective-permute", "reduce-scatter")
    return {n: len(re.findall(rf"\b{n}(?:-start)?\(", text)) for n in names}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--embed", type=int, default=256)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--seq", type=int, default=64)
    args = parser.parse_args()
    block = init_block(jax.random.key(0), args.embed, args.heads, args.embed // args.heads, 4 * args.embed)
    block = shard_block(block)
    x = jnp.ones((4, args.seq, args.embed))
    out = forward(block, x)
    print("out norm", float(jnp.linalg.norm(out)))
    print("k shard", block.attn.k_proj.addressable_shards[0].data.shape)
    print("collectives", count_collectives(forward.lower(block, x).compile().as_text()))


if __name__ == "__main__":
    main()
