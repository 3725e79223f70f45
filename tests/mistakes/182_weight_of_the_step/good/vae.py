import equinox as eqx
import jax
import jax.numpy as jnp


class VAE(eqx.Module):
    enc: eqx.nn.MLP
    dec: eqx.nn.MLP
    latent: int = eqx.field(static=True)

    def __init__(self, data: int, latent: int, width: int, *, key):
        ke, kd = jax.random.split(key)
        self.enc = eqx.nn.MLP(data, 2 * latent, width, 2, activation=jax.nn.silu, key=ke)
        self.dec = eqx.nn.MLP(latent, data, width, 2, activation=jax.nn.silu, key=kd)
        self.latent = latent

    def __call__(self, x, key):
        mu, log_var = jnp.split(self.enc(x), 2)
        z = mu + jnp.exp(0.5 * log_var) * jax.random.normal(key, mu.shape)
        return self.dec(z), mu, log_var


def elbo_terms(vae, x, key):
    keys = jax.random.split(key, x.shape[0])
    recon, mu, log_var = jax.vmap(vae)(x, keys)
    nll = 0.5 * jnp.sum((recon - x) ** 2, -1)
    kl = 0.5 * jnp.sum(mu**2 + jnp.exp(log_var) - 1 - log_var, -1)
    return nll.mean(), kl.mean()
