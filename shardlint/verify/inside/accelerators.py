"""Descriptions of accelerators that are not here, from their own compilers: libtpu, and XLA's for CUDA."""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Mapping
from typing import Any

from shardlint.verify.topology import Topology

# What XLA asks the driver of a GPU that is there: NVIDIA's figures for the H100 SXM5 with 80 GB.
_H100 = """
gpu_device_info {{
  cuda_compute_capability {{ major: 9 minor: 0 }}
  core_count: 132
  fpus_per_core: 128
  clock_rate_ghz: 1.98
  memory_bandwidth: 3352320000000
  device_memory_size: 84929347584
  l2_cache_size: 52428800
  shared_memory_per_core: 233472
  shared_memory_per_block: 49152
  shared_memory_per_block_optin: 232448
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
  threads_per_core_limit: 2048
  threads_per_block_limit: 1024
  threads_per_warp: 32
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 12 }}
runtime_version {{ major: {cuda} minor: 0 patch: 0 }}
device_description_str: "NVIDIA H100 80GB HBM3"
"""


class Unavailable(Exception):
    """A topology that cannot be compiled for here; the message says why and what would help."""


class Mistaken(Exception):
    """A fixture that cannot be meant: a topology its own compiler says does not exist, a program for no device."""


def installed_compiler(platform: str) -> str:
    """The module of the compiler installed for a platform (`tpu`, `cuda`); "" for none. Nothing is loaded."""
    names = {"tpu": ["libtpu"], "cuda": ["jax_plugins.xla_cuda13", "jax_plugins.xla_cuda12"]}[platform]
    for name in names:
        # A package that is not there cannot be asked for a part of it.
        with contextlib.suppress(ModuleNotFoundError):
            if importlib.util.find_spec(name) is not None:
                return name
    return ""


def describe_topology(topology: Topology) -> list[Any]:
    """The devices of a topology, which can be compiled for and nothing else.

    Raises `Unavailable` without its compiler, and `Mistaken` where that knows no such topology.
    """
    import jax

    found = installed_compiler(topology.platform)
    if not found:
        what = "libtpu" if topology.platform == "tpu" else "the CUDA plugin of jax"
        raise Unavailable(f"{topology.name} needs {what}, which is not installed: {topology.install_command}")
    from jax.experimental import topologies

    if topology.platform == "tpu":
        # Without these libtpu asks the network which machine this is, and refuses a second process its lock file.
        os.environ["TPU_SKIP_MDS_QUERY"] = "1"
        os.environ["ALLOW_MULTIPLE_LIBTPU_LOAD"] = "1"
        options: dict[str, Any] = {"platform": "tpu", "topology_name": topology.jax_topology_name}
    else:
        options = {
            "platform": "cuda",
            "target_config": _H100.format(cuda=found[-2:]),
            "topology": topology.jax_topology_name,
        }
    try:
        return list(topologies.get_topology_desc(**options).devices)
    except Exception as error:
        said = first_line(error)
        if topology.platform == "tpu" and "INVALID_ARGUMENT" in said:
            raise Mistaken(f"libtpu does not know {topology.name}: {said}") from error
        raise Unavailable(
            f"jax {jax.__version__} cannot describe {topology.name} ({type(error).__name__}: {said})"
        ) from error


def mesh_over_topology(devices: list[Any], topology: Topology, sizes: Mapping[str, int], explicit: bool) -> Any:
    """A mesh of these axis sizes over a topology's devices, laid as `jax.make_mesh` lays it on real ones.

    Raises `Unavailable` where it cannot be laid: axes of a TPU's mesh must fit its torus.
    """
    import jax

    shape, names = tuple(sizes.values()), tuple(sizes)
    try:
        laid = jax.make_mesh(shape, names, devices=devices)
    except (NotImplementedError, ValueError) as error:
        mesh = "x".join(map(str, shape))
        raise Unavailable(
            f"jax.make_mesh cannot place a {mesh} mesh on {topology.name}: {first_line(error)}"
        ) from error
    types = {"axis_types": (jax.sharding.AxisType.Explicit,) * len(names)} if explicit else {}
    return jax.sharding.Mesh(laid.devices, names, **types)


def first_line(error: BaseException) -> str:
    """The first sentence of an error's message."""
    line = (str(error).strip().splitlines() or [""])[0]
    return line.split(". ")[0].rstrip(".")
