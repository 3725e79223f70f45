"""Write embeddings; every host writes the rows it is asked to, so it needs all of them."""
import json
from pathlib import Path

import numpy as np


class Writer:
    def __init__(self, root, host, n_hosts):
        self.root = Path(root)
        self.root.mkdir(parents=True, exist_ok=True)
        self.host, self.n_hosts = host, n_hosts

    def write(self, step, array):
        local = np.asarray(array.addressable_data(0))
        mine = np.array_split(local, self.n_hosts)[self.host]
        np.save(self.root / f"part-{step:04d}-{self.host}.npy", mine)
        return mine.shape[0]

    def close(self, rows):
        (self.root / f"done-{self.host}.json").write_text(json.dumps({"rows": rows}))
