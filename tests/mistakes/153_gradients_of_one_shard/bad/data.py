import numpy as np


def lennard_jones(pos):
    d2 = ((pos[:, :, None] - pos[:, None]) ** 2).sum(-1)
    n = pos.shape[1]
    iu = np.triu_indices(n, 1)
    s6 = 1.0 / np.maximum(d2[:, iu[0], iu[1]], 0.7) ** 3
    return (4 * (s6**2 - s6)).sum(-1)


class Molecules:
    def __init__(self, count=256, atoms=6, kinds=3, seed=0):
        rng = np.random.default_rng(seed)
        self.pos = rng.normal(scale=1.5, size=(count, atoms, 3)).astype(np.float32)
        self.species = np.eye(kinds, dtype=np.float32)[rng.integers(0, kinds, (count, atoms))]
        e = lennard_jones(self.pos)
        self.energy = ((e - e.mean()) / e.std()).astype(np.float32)

    def batches(self, size, rng):
        order = rng.permutation(len(self.energy))
        for i in range(0, len(order) - size + 1, size):
            idx = order[i : i + size]
            yield self.pos[idx], self.species[idx], self.energy[idx]
