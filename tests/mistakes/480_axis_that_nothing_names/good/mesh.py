"""Meshes, by what the settings say: `axes: "data,fsdp"` and `shape: "2,4"`."""

import jax
import numpy as np
from jax.sharding import Mesh


def read(path):
    settings = {}
    for line in open(path):
        key, _, value = line.partition("=")
        if value:
            settings[key.strip()] = value.strip()
    return settings


def make_mesh(settings):
    names = tuple(settings["axes"].split(","))
    shape = [int(size) for size in settings["shape"].split(",")]
    return Mesh(np.array(jax.devices()).reshape(shape), names)
