import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P


class Scoring:
    """Accuracy over a whole corpus, a batch of all processes at a time."""

    def __init__(self, corpus, mesh, batch):
        self.corpus, self.batch = corpus, batch
        self.split = NamedSharding(mesh, P("rows"))
        self.mine = range(jax.process_index(), corpus.size, jax.process_count())
        self.turns = -(-corpus.size // (batch * jax.process_count()))
        self.right = jax.jit(self._right, out_shardings=NamedSharding(mesh, P()))

    def _right(self, w, x, y, weight):
        return jnp.sum(((x @ w > 0) == (y > 0.5)) * weight), jnp.sum(weight)

    def _batches(self):
        for turn in range(self.turns):
            numbers = list(self.mine[turn * self.batch : (turn + 1) * self.batch])
            weight = (np.arange(self.batch) < len(numbers)).astype(np.float32)
            x, y = self.corpus.rows(numbers + [0] * (self.batch - len(numbers)))
            yield [jax.make_array_from_process_local_data(self.split, one) for one in (x, y, weight)]

    def __call__(self, w):
        counts = [self.right(w, *batch) for batch in self._batches()]
        right, all_rows = (sum(float(one) for one in each) for each in zip(*counts, strict=True))
        return right / all_rows, int(all_rows)
