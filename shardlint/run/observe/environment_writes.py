"""Writes to flags and settings that jax does not read any more, or that lose what was written before."""

from __future__ import annotations

import functools
import os
import sys
from typing import Any

from .event_sink import silence_errors, write_event
from .frames import user_line

_BACKEND = frozenset(
    ("XLA_FLAGS", "LIBTPU_INIT_ARGS", "XLA_PYTHON_CLIENT_PREALLOCATE", "XLA_PYTHON_CLIENT_MEM_FRACTION")
)
_IMPORT = frozenset(("JAX_PLATFORMS", "JAX_PLATFORM_NAME", "JAX_NUM_CPU_DEVICES", "JAX_ENABLE_X64"))
_CONFIG = frozenset(("jax_platforms", "jax_platform_name", "jax_num_cpu_devices"))
_set_by_program: dict[str, list[Any]] = {}


def begin() -> None:
    """Watch what is written to the environment, by whatever class it has."""
    given = type(os.environ)
    write_item = given.__setitem__

    @functools.wraps(write_item)
    def set_and_note(self: Any, key: str, value: str) -> None:
        if key in _BACKEND or key in _IMPORT:
            _note_written(self, key, value)
        write_item(self, key, value)

    given.__setitem__ = set_and_note  # type: ignore[method-assign]


def install(jax: Any) -> None:
    """Watch `jax.config.update`."""
    config = type(jax.config)
    update = config.update

    @functools.wraps(update)
    def update_and_note(self: Any, name: str, value: Any) -> Any:
        before = getattr(self, name, None) if name in _CONFIG else None
        done = update(self, name, value)
        if name in _CONFIG and value != before and is_backend_started():
            silence_errors(write_event)("late-flag", name=name, value=str(value), what="backend", line=user_line())
        return done

    config.update = update_and_note


def is_backend_started() -> bool:
    """Return whether jax has started its backends, so that the device count in the environment is no longer read."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    return bool(getattr(bridge, "_backends", None))


def is_device_count_chosen() -> bool:
    """Return whether the user or the program has set the number of devices. Otherwise this run has chosen it."""
    flags = _set_by_program.get("XLA_FLAGS", [()])[0]
    own = any(_flag_name(flag) == "--xla_force_host_platform_device_count" for flag in flags)
    return own or "SHARDLINT_RUN_DEVICES" not in os.environ or "JAX_NUM_CPU_DEVICES" in _set_by_program


@silence_errors
def _note_written(environ: Any, key: str, value: str) -> None:
    line = user_line()
    if line is None or not isinstance(value, str):
        return
    before = environ.get(key)
    if key in _BACKEND and is_backend_started() and _adds_settings(before, value):
        write_event("late-flag", name=key, value=_program_part(value), what="backend", line=line)
    elif key in _IMPORT and "jax._src.config" in sys.modules and _adds_settings(before, value):
        write_event("late-flag", name=key, value=value, what="import", line=line)
    elif key == "XLA_FLAGS" and key in _set_by_program:
        lost = [flag for flag in _set_by_program[key][0] if _flag_name(flag) not in map(_flag_name, value.split())]
        if lost:
            write_event("lost-flag", name=key, lost=lost, line=line, before=_set_by_program[key][1])
    _set_by_program[key] = [value.split(), line]


def _program_part(value: str) -> str:
    """Return the program's part of a value, without the flags that the run has added for the compiler."""
    ours = os.environ.get("SHARDLINT_RUN_FLAGS", "").split()
    return " ".join(one for one in value.split() if one not in ours and not one.startswith("--xla_dump_to="))


def _adds_settings(before: str | None, value: str) -> bool:
    """Return whether a value adds new settings."""
    return bool(set(value.split()) - set((before or "").split()))


def _flag_name(flag: str) -> str:
    return flag.partition("=")[0]
