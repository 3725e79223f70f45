import jax
import jax.numpy as jnp

from model import init, layer, reference
from names import Names


def main():
    names = Names()
    mesh = jax.make_mesh((2, 4), (names.examples, names.heads), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    one, two = jax.random.split(jax.random.key(0))
    params = init(one)
    heads = jax.random.normal(two, (4, 6, 8, 4))
    given = jax.jit(lambda params, heads: layer(params, heads, mesh, names))(params, heads)
    wanted = reference(params, heads)
    same = given.shape == wanted.shape and bool(jnp.allclose(given, wanted, atol=1e-3))
    print("as on one device:", "yes" if same else "no")


if __name__ == "__main__":
    main()
