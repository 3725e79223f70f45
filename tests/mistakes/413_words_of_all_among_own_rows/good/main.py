import jax
import jax.numpy as jnp

from model import Embedding, logits


def main():
    mesh = jax.make_mesh((8,), ("vocab",), axis_types=(jax.sharding.AxisType.Auto,))
    embedding = Embedding(mesh)
    table = embedding.init(jax.random.key(0), 64, 16)
    words = jax.random.randint(jax.random.key(1), (4, 10), 0, 64)
    given = jax.jit(embedding)(table, words)
    assert logits(table, given).shape == (4, 10, 64)
    grads = jax.grad(lambda table: jnp.sum(embedding(table, words) ** 2))(table)
    assert grads.shape == table.shape
    print("looked up:", "all" if jnp.allclose(given, table[words], atol=1e-3) else "not all")


if __name__ == "__main__":
    main()
