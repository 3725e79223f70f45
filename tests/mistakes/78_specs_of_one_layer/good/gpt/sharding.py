import jax
from jax.sharding import NamedSharding, PartitionSpec as P


def param_specs():
    return {
        "emb": P("tp", "fsdp"),
        "layers": {
            "w_up": P(None, "fsdp", "tp"),
            "w_down": P(None, "tp", "fsdp"),
        },
    }


def param_shardings(mesh):
    return jax.tree.map(
        lambda spec: NamedSharding(mesh, spec), param_specs(),
        is_leaf=lambda x: isinstance(x, P),
    )
