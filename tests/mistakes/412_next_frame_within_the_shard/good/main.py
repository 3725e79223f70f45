import jax

from frames import init
from objective import make_objective


def main():
    mesh = jax.make_mesh((8,), ("time",), axis_types=(jax.sharding.AxisType.Auto,))
    weights = init(3)
    frames = jax.random.uniform(jax.random.key(0), (4, 64, 3)) + 1
    step = jax.jit(jax.value_and_grad(make_objective(mesh), has_aux=True))
    for _ in range(3):
        (_, padded), grads = step(weights, frames)
        weights = jax.tree.map(lambda w, g: w - 0.1 * g, weights, grads)
    print("frames compared with padding:", int(padded))


if __name__ == "__main__":
    main()
