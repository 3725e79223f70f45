import equinox as eqx
import jax
import jax.numpy as jnp


class FourierMLP(eqx.Module):
    freqs: jax.Array
    layers: list[eqx.nn.Linear]
    out: eqx.nn.Linear

    def __init__(self, width, depth, key, n_freq=32, scale=2.0):
        kf, ko, *kl = jax.random.split(key, 2 + depth)
        self.freqs = scale * jax.random.normal(kf, (n_freq, 2))
        sizes = [2 * n_freq] + [width] * depth
        self.layers = [eqx.nn.Linear(i, o, key=k) for i, o, k in zip(sizes[:-1], sizes[1:], kl)]
        self.out = eqx.nn.Linear(width, 1, key=ko)

    def __call__(self, t, x):
        z = 2 * jnp.pi * jax.lax.stop_gradient(self.freqs) @ jnp.stack([t, x])
        h = jnp.concatenate([jnp.sin(z), jnp.cos(z)])
        for layer in self.layers:
            h = jnp.tanh(layer(h))
        # u(0, x) = -sin(pi x), u(t, +-1) = 0 built in
        return -jnp.sin(jnp.pi * x) + t * (1 - x**2) * self.out(h)[0]


def residual(u, t, x, nu=0.01 / jnp.pi):
    u_t = jax.grad(u, 0)(t, x)
    u_x = jax.grad(u, 1)
    return u_t + u(t, x) * u_x(t, x) - nu * jax.grad(u_x, 1)(t, x)


def loss(u, pts):
    r = jax.vmap(lambda p: residual(u, p[0], p[1]))(pts)
    return jnp.mean(r**2)
