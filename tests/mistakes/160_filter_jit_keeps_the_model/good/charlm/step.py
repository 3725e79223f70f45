import equinox as eqx
import jax
import optax

from .model import nll


def make_optimizer(lr: float, warmup: int, total: int):
    schedule = optax.warmup_cosine_decay_schedule(0.0, lr, warmup, total)
    return optax.chain(optax.clip_by_global_norm(1.0), optax.adam(schedule))


def make_step(opt, sharding):
    """model and optimizer state are replaced every call, so their buffers get reused"""

    @eqx.filter_jit(donate="all-except-first")
    def step(tokens, model, opt_state):
        model, opt_state = eqx.filter_shard((model, opt_state), sharding)
        loss, grads = eqx.filter_value_and_grad(nll)(model, tokens)
        updates, opt_state = opt.update(grads, opt_state, eqx.filter(model, eqx.is_inexact_array))
        model = eqx.apply_updates(model, updates)
        return eqx.filter_shard((model, opt_state), sharding) + (loss,)

    return step


@eqx.filter_jit
def evaluate(model, tokens):
    return nll(model, tokens)
