import jax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

from layers import init_ffn
from loop import train

D, F = 32, 64


def main():
    mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
    params = init_ffn(jax.random.key(0), D, F)
    params = jax.device_put(
        params,
        {"up": NamedSharding(mesh, P(None, "model")), "down": NamedSharding(mesh, P("model", None))},
    )
    _, loss, final = train(mesh, params, D)
    print(loss, final)


if __name__ == "__main__":
    main()
