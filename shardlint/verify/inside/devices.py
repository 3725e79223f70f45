"""Simulated devices, the limits a child puts on itself, and the meshes it builds."""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Mapping
from typing import Any

# Measured over jax 0.4.38 to 0.12 on Linux: the backend reserves about 1 GiB of addresses and 36
# MiB more for each simulated device (threads and their arenas) before a program allocates anything.
_BACKEND = 5 * 2**28
_A_DEVICE = 48 * 2**20


def simulate_devices(count: int) -> None:
    """Give this process `count` CPU devices. Call it before anything starts a jax backend."""
    import jax

    os.environ["JAX_PLATFORMS"] = "cpu"
    jax.config.update("jax_platforms", "cpu")
    flag = f"--xla_force_host_platform_device_count={count}"
    others = re.sub(r"--xla_force_host_platform_device_count=\S*", "", os.environ.get("XLA_FLAGS", ""))
    os.environ["XLA_FLAGS"] = f"{others} {flag}".strip()
    # Releases without the option (before 0.5) read the flag; the others would prefer the option anyway.
    with contextlib.suppress(AttributeError):
        jax.config.update("jax_num_cpu_devices", count)


def compile_quickly() -> None:
    """Have the compiler for CPU generate code of low quality: programs of fixtures are run once, and small.

    Measured: half the time to compile a transformer's step, element-wise arithmetic four times slower, products as
    fast; no sharding, collective or byte differs.
    """
    import jax

    jax.config.update("jax_disable_most_optimizations", True)


def limit_process(memory: int | None, seconds: float, devices: int) -> list[str]:
    """Limit this process's memory (bytes beyond what the simulated devices reserve) and processor
    time.

    Returns a sentence for each limit this system does not have. Processor time is only a second
    line behind the wall clock the parent watches: it ends a busy child whose parent was killed.
    """
    try:
        import resource
    except ImportError:
        return ["no memory or processor-time limit on this system (no `resource` module)"]
    missing = []
    if memory is not None:
        try:
            limit_memory(memory, devices)
        except (OSError, ValueError):
            missing.append("no memory limit on this system (RLIMIT_AS is refused)")
    try:
        limit_processes(devices)
        allowed = math.ceil(seconds * (os.cpu_count() or 1)) + 5
        resource.setrlimit(resource.RLIMIT_CPU, (allowed, allowed))
    except (OSError, ValueError):
        missing.append("no processor-time limit on this system (RLIMIT_CPU is refused)")
    return missing


def limit_processes(devices: int) -> None:
    """Limit how many threads the user this runs as may have to some thousands more than there are, so
    that a program that forks without end meets an end (not one of the superuser's).
    """
    import resource

    try:
        with open("/proc/loadavg", encoding="ascii") as file:  # noqa: PTH123
            threads = int(file.read().split()[3].partition("/")[2])
    except OSError:
        return
    most = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    wanted = threads + 4096 + 4 * devices
    if most == resource.RLIM_INFINITY or wanted < most:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NPROC, (wanted, most))


def limit_memory(memory: int, devices: int) -> None:
    """Limit this process, and each it starts, to `memory` bytes beyond what `devices` simulated devices
    reserve. Raises `OSError` or `ValueError` where the system refuses, `ImportError` where it has no limits.
    """
    import resource

    total = _address_space() + _BACKEND + _A_DEVICE * devices + memory
    resource.setrlimit(resource.RLIMIT_AS, (total, total))


def _address_space() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123  # no pathlib in a fresh fork
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 2**30


def reason_explicit_missing() -> str:
    """Why there are no explicit axes here; "" where there are."""
    import jax

    if hasattr(jax.sharding, "AxisType") and hasattr(jax.sharding, "AbstractMesh"):
        return ""
    return f"jax {jax.__version__} has no explicit axes (0.5.3 has)"


def is_explicit(mesh: Any) -> bool:
    """Return whether a mesh has explicit axes."""
    types = getattr(mesh, "axis_types", None) or ()
    return any(str(kind).endswith("Explicit") for kind in types)


def mesh_of(sizes: Mapping[str, int], explicit: bool = False) -> Any:
    """A `jax.sharding.Mesh` with Auto (or Explicit) axes over the first simulated devices.

    Raises `RuntimeError` when the program under test changed the number of devices.
    """
    import jax
    import numpy as np

    needed = math.prod(sizes.values())
    devices = jax.devices()
    if len(devices) < needed:
        raise RuntimeError(
            f"the mesh needs {needed} devices, and there are {len(devices)}: does the program set XLA_FLAGS, "
            "jax_num_cpu_devices or jax_platforms itself?"
        )
    # Mesh, not make_mesh: make_mesh gives Explicit axes since jax 0.9.
    types = {"axis_types": (jax.sharding.AxisType.Explicit,) * len(sizes)} if explicit else {}
    return jax.sharding.Mesh(np.array(devices[:needed]).reshape(tuple(sizes.values())), tuple(sizes), **types)


def enter_mesh_context(kind: str, mesh: Any) -> tuple[contextlib.AbstractContextManager[Any], str]:
    """The context a function is called in, and its name for the report. `kind` is one of
    `fixture.CONTEXTS`.
    """
    import jax

    if kind == "none":
        return contextlib.nullcontext(), "no mesh context"
    if kind == "set_mesh":
        if hasattr(jax, "set_mesh"):
            return jax.set_mesh(mesh), "jax.set_mesh(mesh)"
        if hasattr(jax.sharding, "use_mesh"):
            return jax.sharding.use_mesh(mesh), "jax.sharding.use_mesh(mesh)"
    return mesh, "with mesh"
