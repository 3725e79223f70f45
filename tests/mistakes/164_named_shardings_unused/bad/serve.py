import jax
import numpy as np
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from qa import Ranker
from weights import fake_checkpoint

mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("dp", "tp"))


def load_ranker(checkpoint):
    with jax.set_mesh(mesh):
        abstract = nnx.eval_shape(lambda: Ranker(rngs=nnx.Rngs(0)))
        graphdef, state = nnx.split(abstract)
        shardings = nnx.get_named_sharding(state, mesh)  # mistake: sharding-never-used
        nnx.replace_by_pure_dict(state, checkpoint)
        return nnx.merge(graphdef, jax.tree.map(jax.numpy.asarray, state))  # mistake: sharding-never-used


@nnx.jit
def rank(model, q, a):
    return model(q, a).argsort(-1, descending=True)


class Service:
    def __init__(self):
        self.model = load_ranker(fake_checkpoint())
        self.model.eval()
        self.rows = NamedSharding(mesh, P("dp"))

    def __call__(self, questions, answers):
        q = jax.device_put(np.asarray(questions, np.float32), self.rows)
        a = jax.device_put(np.asarray(answers, np.float32), NamedSharding(mesh, P()))
        return np.asarray(rank(self.model, q, a))


def main():
    service = Service()
    rng = np.random.default_rng(3)
    for n in (4, 8):
        order = service(rng.normal(size=(n, 24)), rng.normal(size=(10, 40)))
        print(n, order[0][:5])
    return service


if __name__ == "__main__":
    main()
