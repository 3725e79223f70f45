import jax
import numpy as np
import optax

import fsdp
import stack

tx = optax.sgd(1e-2, momentum=0.9, nesterov=True)


def setup(key=jax.random.key(0)):
    sh = fsdp.shardings(jax.eval_shape(stack.init, key))
    params = jax.jit(stack.init, out_shardings=sh)(key)
    return params, tx.init(params)


@jax.jit
def step(params, opt, ids):
    def loss(p):
        lg = stack.forward(p, ids[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(lg, ids[:, 1:]).mean()

    value, g = jax.value_and_grad(loss)(params)
    u, opt = tx.update(g, opt)
    return optax.apply_updates(params, u), opt, value


def main(steps=3):
    params, opt = setup()
    rng = np.random.default_rng(0)
    for _ in range(steps):
        ids = jax.device_put(rng.integers(0, 256, (16, 17)), fsdp.data)
        params, opt, value = step(params, opt, ids)
        print(float(value))


if __name__ == "__main__":
    main()
