"""Poisson regression with exposure offsets."""
import jax.numpy as jnp


def init(factors):
    return {"beta": jnp.zeros((factors,)), "intercept": jnp.zeros(())}


def deviance(params, x, counts, exposure):
    eta = x @ params["beta"] + params["intercept"] + jnp.log(exposure)
    return jnp.sum(jnp.exp(eta) - counts * eta)
