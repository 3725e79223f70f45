import jax
import jax.numpy as jnp

from vit.opt import adam, adam_init
from vit.parallel import BY_EXAMPLE, REPLICATED, data_parallel, device_mesh


def forward(params, x):
    return jnp.tanh(x @ params["w"]) @ params["v"]


def loss_fn(params, x, y):
    return jax.lax.pmean(jnp.mean((forward(params, x) - y) ** 2), "data")


def build(lr, mesh):
    @jax.jit
    @data_parallel(mesh, in_specs=(REPLICATED, REPLICATED, BY_EXAMPLE, BY_EXAMPLE), out_specs=REPLICATED)
    def step(params, opt, x, y):
        loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
        params, opt = adam(params, grads, opt, lr)
        return params, opt, loss

    return step


def main():
    mesh = device_mesh()
    a, b = jax.random.split(jax.random.key(0))
    params = {"w": jax.random.normal(a, (8, 16)) * 0.3, "v": jax.random.normal(b, (16,)) * 0.3}
    opt = adam_init(params)
    step = build(1e-2, mesh)
    x = jax.random.normal(jax.random.key(3), (32, 8))
    for _ in range(4):
        params, opt, loss = step(params, opt, x, x.sum(-1))
    print("loss after 4 steps", float(loss))


if __name__ == "__main__":
    main()
