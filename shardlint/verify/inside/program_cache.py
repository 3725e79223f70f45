"""Cache of compiled programs. It answers only for a program that is identical down to its source locations.

Tracing and lowering always happen; only the compiler is not asked twice. An answer is kept where it can be
made again from plain text alone, which is tried before it is written.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import json
import os
import platform
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np

from shardlint.verify import cache
from shardlint.verify.inside.programs import with_places

# To be raised when entries change their meaning.
_SCHEMA = 1
_PACKAGES = (
    "jax jaxlib libtpu jax-cuda12-plugin jax-cuda12-pjrt jax-cuda13-plugin jax-cuda13-pjrt nvidia-cuda-nvcc"
    " nvidia-cuda-nvcc-cu12 nvidia-cuda-nvcc-cu13 nvidia-cudnn-cu12 nvidia-cudnn-cu13"
).split()
_ENVIRONMENT = ("XLA_", "JAX_", "LIBTPU_", "TPU_", "CUDA_")
_TEXT_BYTES = 512 * 2**20
# The texts of `partitioned.Partitioned`.
TEXTS = ("after", "before", "original", "final", "said")

Device = Any


class Memory:
    """Compilation cache of one process (None: there is none), and whether it was used.

    Entries are read here, and vouched for and written by the process that started this one: the program that runs
    here has no part in that.
    """

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._ask: Callable[[dict[str, Any]], dict[str, Any]] = lambda question: {}
        self._send: Callable[[dict[str, Any]], None] = lambda message: None
        self.used = False

    def use_folder(
        self,
        folder: str | None,
        ask: Callable[[dict[str, Any]], dict[str, Any]],
        send: Callable[[dict[str, Any]], None],
    ) -> None:
        """Read answers from a folder from now on; `ask` and `send` reach the process that started this one."""
        self._folder = None if folder is None else Path(folder)
        self._ask, self._send = ask, send

    def is_on(self) -> bool:
        """Return whether there is a cache."""
        return self._folder is not None

    def get_entry(self, key: str) -> dict[str, Any] | None:
        """The entry of a key, or None."""
        data = b"" if self._folder is None else cache.read_entry(self._folder, key)
        digest = self._ask({"recall": key}).get("vouched") if data else None
        return cache.vouched_value(data, digest) if isinstance(digest, str) else None

    def put_entry(self, key: str, value: dict[str, Any]) -> None:
        """Have an entry written, once all that this process tells has turned out well."""
        self._send({"keep": key, "value": value})

    def was_used(self) -> bool:
        """Return whether an answer came from the cache since the last query."""
        used, self.used = self.used, False
        return used


memory = Memory()


class Answer:
    """A compiled program as jax would show it, made from what was kept of it. It cannot be run."""

    def __init__(self, kept: Mapping[str, Any], lowered: Any, devices: Mapping[str, Device]) -> None:
        inputs = jax.tree_util.tree_structure(lowered.args_info)
        outputs = jax.tree_util.tree_structure(lowered.out_info)
        self.input_shardings = inputs.unflatten([_sharding_from_data(one, devices) for one in kept["inputs"]])
        self.output_shardings = outputs.unflatten(
            [_sharding_from_data(one, devices) for one in kept["outputs"]]
        )
        self._memory = SimpleNamespace(**{name: int(size) for name, size in kept["memory"].items()})
        self._text = _unpack_text(kept["text"])

    def memory_analysis(self) -> Any:
        """Sizes in bytes, by the names jax has for them."""
        return self._memory

    def as_text(self) -> str:
        """The optimised module."""
        return self._text


def key_of(lowered: Any, options: Mapping[str, Any] | None, devices: Sequence[Device]) -> str | None:
    """Return a digest of everything that a program's compilation depends on. It is None if that cannot be determined,
    and for a program that calls back into this process, of which its text holds an address.
    """
    try:
        # What jax hands the compiler besides the text.
        given, more = lowered._lowering._compiler_options_kvs, lowered._lowering.compile_args
        shardings = [*more["in_shardings"], *more["out_shardings"], *more["intermediate_shardings"]]
        if more["host_callbacks"]:
            return None
    except (AttributeError, KeyError, TypeError):
        return None
    about = {
        "schema": _SCHEMA,
        "options": repr((given, sorted((options or {}).items()))),
        "devices": [_device_text(device) + getattr(device, "device_kind", "") for device in devices],
        "order": [_device_order(sharding) for sharding in shardings],
        "packages": {name: release for name in _PACKAGES if (release := _installed_release(name))},
        "config": {name: repr(value) for name, value in sorted(jax.config.values.items())},
        "environment": {
            name: os.environ[name] for name in sorted(os.environ) if name.startswith(_ENVIRONMENT)
        },
        "machine": _machine_properties(),
    }
    digest = hashlib.sha256(json.dumps(about).encode())
    digest.update(with_places(lowered).encode())
    return digest.hexdigest()


def recall_compiled(key: str, lowered: Any, devices: Sequence[Device]) -> tuple[Answer, dict[str, str]] | None:
    """Return the entry of a key: the compiled program, and the texts saved with it."""
    kept = memory.get_entry(key)
    if kept is None:
        return None
    try:
        answer = Answer(kept, lowered, {_device_text(device): device for device in devices})
        texts = {name: _unpack_text(kept["texts"][name]) for name in TEXTS}
    except Exception:  # whatever somebody wrote there
        return None
    memory.used = True
    return answer, texts


def keep_compiled(key: str, lowered: Any, compiled: Any, texts: Mapping[str, str], devices: Sequence[Device]) -> None:
    """Keep what the compiler answered, if it can be made again from what is kept."""
    if not memory.is_on():
        return
    try:
        inputs = jax.tree_util.tree_structure(lowered.args_info).flatten_up_to(compiled.input_shardings)
        outputs = jax.tree_util.tree_structure(lowered.out_info).flatten_up_to(compiled.output_shardings)
        stats = compiled.memory_analysis()
        kept = {
            "inputs": [_sharding_as_data(one) for one in inputs],
            "outputs": [_sharding_as_data(one) for one in outputs],
            "memory": {name: int(getattr(stats, name)) for name in dir(stats) if name.endswith("_in_bytes")},
            "text": _pack_text(compiled.as_text() or ""),
            "texts": {name: _pack_text(text) for name, text in texts.items()},
        }
        kept = json.loads(json.dumps(kept))
        again = Answer(kept, lowered, {_device_text(device): device for device in devices})
        same = jax.tree_util.tree_structure(lowered.out_info).flatten_up_to(again.output_shardings) == outputs
        same = same and inputs == jax.tree_util.tree_structure(lowered.args_info).flatten_up_to(
            again.input_shardings
        )
    except Exception:  # a sharding of another kind, a compiler that tells less: nothing to keep
        return
    if same:
        memory.put_entry(key, kept)


def devices_of(values: Iterable[Any]) -> list[Device]:
    """The devices arguments lie on, or are to, in order; without any, this process's."""
    found = {
        device
        for leaf in jax.tree_util.tree_leaves(list(values))
        for device in getattr(getattr(leaf, "sharding", None), "device_set", ())
    }
    return sorted(found or jax.devices(), key=lambda device: int(device.id))


def _device_text(device: Device) -> str:
    return f"{device.platform}:{device.id}"


def _device_order(sharding: Any) -> list[str]:
    """The devices of a sharding in the order it has them, which no text says."""
    if isinstance(sharding, tuple):  # with its place in the source
        return [name for one in sharding for name in _device_order(one)]
    if isinstance(sharding, jax.sharding.NamedSharding) and isinstance(sharding.mesh, jax.sharding.Mesh):
        return [_device_text(device) for device in sharding.mesh.devices.flat]
    return sorted(_device_text(device) for device in getattr(sharding, "device_set", ()))


def _sharding_as_data(sharding: Any) -> Any:
    """A sharding as plain data. Raises `ValueError` for a kind there is no writing for."""
    if sharding is None:  # an argument the program does not use
        return None
    if isinstance(sharding, jax.sharding.SingleDeviceSharding):
        (device,) = sharding.device_set
        return {"device": _device_text(device), "kind": sharding.memory_kind}
    if not isinstance(sharding, jax.sharding.NamedSharding):
        raise ValueError(f"{type(sharding).__name__} cannot be stored")
    mesh = sharding.mesh
    types = getattr(mesh, "axis_types", None)
    if isinstance(types, Mapping) or types is None:  # jax before 0.5
        types = ()
    return {
        "axes": [[name, size] for name, size in mesh.shape.items()],
        "types": [kind.name for kind in types],
        "devices": [_device_text(device) for device in mesh.devices.flat],
        "spec": list(sharding.spec),
        "kind": sharding.memory_kind,
    }


def _sharding_from_data(kept: Any, devices: Mapping[str, Device]) -> Any:
    if kept is None:
        return None
    if "device" in kept:
        return jax.sharding.SingleDeviceSharding(devices[kept["device"]], memory_kind=kept["kind"])
    grid = np.empty(len(kept["devices"]), dtype=object)
    grid[:] = [devices[name] for name in kept["devices"]]
    types = tuple(getattr(jax.sharding.AxisType, name) for name in kept["types"])
    mesh = jax.sharding.Mesh(
        grid.reshape([size for _, size in kept["axes"]]),
        tuple(name for name, _ in kept["axes"]),
        **({"axis_types": types} if types else {}),
    )
    spec = [tuple(entry) if isinstance(entry, list) else entry for entry in kept["spec"]]
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec), memory_kind=kept["kind"])


def _pack_text(text: str) -> str:
    return base64.b64encode(zlib.compress(text.encode(), 6)).decode()


def _unpack_text(kept: str) -> str:
    unpack = zlib.decompressobj()
    data = unpack.decompress(base64.b64decode(kept, validate=True), _TEXT_BYTES)
    if not unpack.eof:
        raise ValueError("the stored text is cut off or too long")
    return data.decode()


def _installed_release(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _machine_properties() -> str:
    """Return the properties of this machine's processor that a compiler depends on."""
    found = [platform.machine()]
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as lines:
            found += [next((line for line in lines if line.startswith(("flags", "Features"))), "")]
    except OSError:
        found.append(platform.processor())
    return " ".join(found)
