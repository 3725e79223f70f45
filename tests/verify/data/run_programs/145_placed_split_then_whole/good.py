"""A retrieval model: its table is split by rows, and then all of it goes where the optimizer goes."""
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

ITEMS, DIM, ROWS = 8192, 64, 128


class Train(NamedTuple):
    params: Any
    state: Any


def place(mesh, params):
    return {
        "table": jax.device_put(params["table"], NamedSharding(mesh, P("rows", None))),
        "query": jax.device_put(params["query"], NamedSharding(mesh, P())),
    }


def loss_of(params, ids, targets):
    query = params["table"][ids] @ params["query"]
    scores = jnp.einsum("bd,bd->b", query, params["table"][targets])
    return jnp.mean(jax.nn.softplus(-scores))


def main():
    mesh = Mesh(np.array(jax.devices()), ("rows",))
    tx = optax.sgd(0.1, momentum=0.9)
    a, b = jax.random.split(jax.random.key(0))
    params = place(mesh, {"table": jax.random.normal(a, (ITEMS, DIM)), "query": jax.random.normal(b, (DIM, DIM)) / 8})
    train = Train(params, tx.init(params))
    assert not train.params["table"].sharding.is_fully_replicated
    # A copy for a first look, beside what is trained as it lies.
    shown = jax.device_put(train.params["table"], NamedSharding(mesh, P()))
    print(float(shown[0, 0]))

    @jax.jit
    def step(train, ids, targets):
        loss, grads = jax.value_and_grad(loss_of)(train.params, ids, targets)
        updates, state = tx.update(grads, train.state)
        return Train(optax.apply_updates(train.params, updates), state), loss

    rng = np.random.default_rng(0)
    for _ in range(2):
        ids, targets = jax.device_put(tuple(rng.integers(0, ITEMS, (2, ROWS))), NamedSharding(mesh, P("rows")))
        train, loss = step(train, ids, targets)
    # To look all of them up on each device, they are gathered once, when they have been trained.
    table = jax.device_put(train.params["table"], NamedSharding(mesh, P()))
    print(float(loss), float(jnp.abs(table[:10]).mean()))


main()
