import flax.linen as nn
import jax
import numpy as np
import optax
from flax.training.train_state import TrainState
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from moe import Classifier
from settings import Settings


def setup(s: Settings, mesh):
    model = Classifier(s.vocab, s.dim, s.experts, s.layers, s.classes)

    def init(key):
        params = model.init(key, np.zeros((s.batch, s.length), np.int32))["params"]
        return TrainState.create(apply_fn=model.apply, params=params, tx=optax.adam(1e-3))

    key = jax.random.key(0)
    specs = nn.get_partition_spec(jax.eval_shape(init, key))
    shardings = nn.logical_to_mesh_sharding(specs, mesh, s.rules)
    return jax.jit(init, out_shardings=shardings)(key), shardings


def train_step(state, tokens, labels):
    def loss_fn(params):
        logits, aux = state.apply_fn({"params": params}, tokens)
        ce = optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
        return ce + 0.01 * aux, ce

    (_, ce), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
    return state.apply_gradients(grads=grads), ce


def main(s=Settings()):
    names, sizes = zip(*s.mesh)
    mesh = Mesh(np.array(jax.devices()).reshape(sizes), names)
    batch_sharding = NamedSharding(mesh, P(("data", "expert")))
    rng = np.random.default_rng(0)

    with jax.set_mesh(mesh):
        with nn.logical_axis_rules(s.rules):
            state, shardings = setup(s, mesh)
            step = jax.jit(train_step, donate_argnums=0, out_shardings=(shardings, None))

        for i in range(s.steps):
            labels = rng.integers(0, s.classes, s.batch, dtype=np.int32)
            tokens = rng.integers(0, s.vocab, (s.batch, s.length), dtype=np.int32)
            tokens[:, ::3] = labels[:, None]
            tokens, labels = jax.device_put((tokens, labels), batch_sharding)
            with nn.logical_axis_rules(s.rules):
                state, ce = step(state, tokens, labels)
            print(i, float(ce))


if __name__ == "__main__":
    main()
