"""Deterministic global batches, of which every process reads its own rows."""
import jax
import numpy as np


def read(global_batch, features, step):
    rng = np.random.default_rng(step)
    x = rng.normal(size=(global_batch, features)).astype(np.float32)
    y = (np.square(x[:, :4]).sum(1) + np.arange(global_batch) / global_batch).astype(np.float32)
    per_process = global_batch // jax.process_count()
    mine = slice(jax.process_index() * per_process, (jax.process_index() + 1) * per_process)
    return {"x": x[mine], "y": y[mine]}
