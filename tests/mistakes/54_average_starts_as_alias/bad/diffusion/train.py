"""The compiled step."""

import functools

import jax

from diffusion import denoiser


def make_step(tx, decay):
    @functools.partial(jax.jit, donate_argnames="state")
    def step(state, key, x):
        loss, grads = jax.value_and_grad(denoiser.loss)(state.params, key, x)
        updates, opt_state = tx.update(grads, state.opt_state, state.params)
        return state.apply(updates, opt_state, decay), loss

    return step
