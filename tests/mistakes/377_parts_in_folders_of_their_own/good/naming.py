import datetime
import pathlib

import numpy as np
from jax.experimental import multihost_utils


def now():
    moment = datetime.datetime.now().timestamp() * 1e3
    return shared(int(moment) % 1_000_000_000)


def shared(number):
    return int(multihost_utils.broadcast_one_to_all(np.int32(number)))


def new_run(root, title):
    folder = pathlib.Path(root) / f"{title}-{now()}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
