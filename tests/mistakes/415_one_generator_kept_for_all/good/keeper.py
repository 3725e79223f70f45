import os
import pickle

import jax
from jax.experimental import multihost_utils


class Keeper:
    def __init__(self, folder):
        self.folder = folder
        if jax.process_index() == 0:
            os.makedirs(folder, exist_ok=True)
        multihost_utils.sync_global_devices("folder")

    def _draws_at(self, step):
        return os.path.join(self.folder, f"draws.{step:06d}.{jax.process_index()}.pkl")

    def keep(self, step, draws):
        with open(self._draws_at(step), "wb") as file:
            pickle.dump(draws.state_dict(), file)
        multihost_utils.sync_global_devices(f"kept {step}")

    def resume(self, step, draws):
        with open(self._draws_at(step), "rb") as file:
            draws.load_state_dict(pickle.load(file))
        return step
