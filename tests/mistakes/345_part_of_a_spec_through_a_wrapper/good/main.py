import jax
from attention import forward, inputs


def reference(q, k, v):
    """The same with softmax, on whatever devices."""
    weights = jax.nn.softmax((q @ k.swapaxes(-1, -2)) / q.shape[-1] ** 0.5, axis=-1)
    return weights @ v


def main():
    mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    q, k, v = inputs(mesh)
    out, lse = forward(q, k, v)
    print("off by less than 1e-5:", bool(abs(out - reference(q, k, v)).max() < 1e-5))
    return out, lse


if __name__ == "__main__":
    main()
