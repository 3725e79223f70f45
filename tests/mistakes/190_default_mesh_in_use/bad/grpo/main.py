import argparse

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec as P

from meshes import make_mesh
from policy import build_policy
from rollout import advantages, generate, reward


def token_logp(policy, tokens, start):
    logp = jax.nn.log_softmax(policy(tokens[:, :-1]))
    picked = jnp.take_along_axis(logp, tokens[:, 1:, None], -1)[..., 0]
    return picked[:, start - 1 :]


@nnx.jit(static_argnames=("start",), donate_argnames=("policy", "optimizer"))
def update(policy, optimizer, reference, tokens, adv, start: int):
    ref = token_logp(reference, tokens, start)

    def loss_fn(policy):
        lp = token_logp(policy, tokens, start)
        ratio = jnp.exp(lp - jax.lax.stop_gradient(lp))
        kl = jnp.exp(ref - lp) - (ref - lp) - 1
        return -(ratio * adv[:, None]).mean() + 0.02 * kl.mean()

    loss, grads = nnx.value_and_grad(loss_fn)(policy)
    optimizer.update(policy, grads)
    return loss


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--tp", type=int, default=4)
    ap.add_argument("--group", type=int, default=8)
    ap.add_argument("--prompts", type=int, default=4)
    ap.add_argument("--dim", type=int, default=32)
    ap.add_argument("--iters", type=int, default=500)
    args = ap.parse_args()
    vocab, plen, new = 32, 4, 8

    mesh = make_mesh(args.tp)
    rows = NamedSharding(mesh, P("data"))
    policy = build_policy(vocab, args.dim, 2)  # mistake: mesh-left-out
    reference = build_policy(vocab, args.dim, 2, mesh=mesh)
    optimizer = nnx.Optimizer(policy, optax.adam(1e-2), wrt=nnx.Param)
    rng, key = np.random.default_rng(0), jax.random.key(0)
    for it in range(args.iters):
        prompts = np.repeat(rng.integers(0, vocab, (args.prompts, plen), dtype=np.int32), args.group, 0)
        tokens = generate(policy, jax.device_put(prompts, rows), jax.random.fold_in(key, it), new=new)
        r = reward(tokens, plen)
        loss = update(policy, optimizer, reference, tokens, advantages(r, args.group), start=plen)
        print(f"{it} reward {float(r.mean()):.3f} loss {float(loss):.4f}")


if __name__ == "__main__":
    main()
