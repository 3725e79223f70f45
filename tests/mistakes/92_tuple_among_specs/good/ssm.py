import equinox as eqx
import jax
import jax.numpy as jnp


class DiagonalSSM(eqx.Module):
    """A bank of exponential kernels applied by FFT convolution."""

    proj_in: jax.Array
    kernels: jax.Array
    proj_out: jax.Array
    scale: jax.Array

    def __init__(self, d_model, d_inner, length, *, key):
        a, b, c = jax.random.split(key, 3)
        self.proj_in = jax.random.normal(a, (d_inner, d_model)) * d_model**-0.5
        decay = jnp.exp(-jnp.arange(length) / 4.0)
        self.kernels = jax.random.normal(b, (2, d_inner, length)) * decay
        self.proj_out = jax.random.normal(c, (d_model, d_inner)) * d_inner**-0.5
        self.scale = jnp.ones(d_model)

    def __call__(self, x):
        u = jnp.einsum("ld,id->il", x * self.scale, self.proj_in)
        n = 2 * u.shape[-1]
        kf = jnp.fft.rfft(self.kernels, n)
        y = jnp.fft.irfft(jnp.fft.rfft(u, n) * kf[0], n)[:, : u.shape[-1]]
        gate = jax.nn.sigmoid(jnp.einsum("il,il->i", u, self.kernels[1]))
        return x + jnp.einsum("il,di->ld", y * gate[:, None], self.proj_out)
