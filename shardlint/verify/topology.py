"""The accelerators level `topology` compiles for, by name, and what their compilers say of memory. No jax.

A name is a chip and how many of them lie where. TPUs by their torus: `v5e:4x4`, `v6e:16x16` (two
numbers), `v5p:2x2x4` (three). GPUs by host: `h100:8` (one host with 8), `h100:4x8` (four hosts with 8 each).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from shardlint.verify.facts import Program
from shardlint.verify.report import Failure
from shardlint.verify.texts import size_text

GIB = 2**30


@dataclass(frozen=True)
class Topology:
    """Devices that are not here. `name` as the user writes it, `chip` its first part, `shape` the
    numbers; `platform` is jax's name of the compiler, `tpu` or `cuda`.

    `hbm_bytes` is what the compiler lets a program use of one device's memory.
    """

    name: str
    chip: str
    shape: tuple[int, ...]
    platform: str
    hbm_bytes: int

    @property
    def device_count(self) -> int:
        """How many devices there are."""
        return math.prod(self.shape)

    @property
    def jax_topology_name(self) -> str:
        """Return the name of the topology in jax."""
        if self.platform == "tpu":
            return self.name
        hosts, each = (1, *self.shape)[-2:]
        return f"1x{hosts}x{each}"  # slices (joined by NVLink across hosts), hosts, devices of a host

    @property
    def install_command(self) -> str:
        """Return the command that installs the compiler."""
        return f'pip install "shardlint[{self.platform}]"'


@dataclass(frozen=True)
class _Chip:
    platform: str
    numbers: tuple[int, ...]
    hbm_bytes: int
    example: str


# Of a TPU: what libtpu 0.0.50 itself names as available when it refuses a program, to two decimals. Of the H100: all of
# its memory as the driver reports it. jax takes three quarters of that unless told otherwise
# (XLA_PYTHON_CLIENT_MEM_FRACTION), and the compiler refuses nothing.
_CHIPS = {
    "v5e": _Chip("tpu", (2,), int(15.75 * GIB), "v5e:4x4"),
    "v5p": _Chip("tpu", (3,), int(95.73 * GIB), "v5p:2x2x4"),
    "v6e": _Chip("tpu", (2,), int(31.24 * GIB), "v6e:4x4"),
    "h100": _Chip("cuda", (1, 2), 84_929_347_584, "h100:8 or, four hosts of them, h100:4x8"),
}


def parse_topology(text: str) -> Topology:
    """The topology of a name such as `v5e:4x4`. Raises `ValueError`, which says what to write, for anything
    else.
    """
    chip, _, numbers = text.strip().lower().partition(":")
    if chip not in _CHIPS:
        known = "; ".join(one.example for one in _CHIPS.values())
        raise ValueError(f"{text!r} is not a known topology; write {known}")
    known_chip = _CHIPS[chip]
    if not re.fullmatch(r"[1-9]\d*(x[1-9]\d*)*", numbers):
        raise ValueError(f"{text!r} does not give the shape of the topology; write {known_chip.example}")
    shape = tuple(map(int, numbers.split("x")))
    if len(shape) not in known_chip.numbers:
        counts = " or ".join(map(str, known_chip.numbers))
        raise ValueError(
            f"{text!r} has {len(shape)} numbers, but {chip} takes {counts}; write {known_chip.example}"
        )
    return Topology(f"{chip}:{numbers}", chip, shape, known_chip.platform, known_chip.hbm_bytes)


# libtpu 0.0.50 writes "(17.23G) exceeds available HBM (15.75G)", 0.0.17 "Used 100.00G of 95.74G hbm"; G is GiB.
_REFUSALS = (
    re.compile(r"\(([\d.]+)([KMGT]?)\) exceeds available HBM \(([\d.]+)([KMGT]?)\)"),
    re.compile(r"Used ([\d.]+)([KMGT]?) of ([\d.]+)([KMGT]?) hbm"),
)


@dataclass(frozen=True)
class OutOfMemory:
    """A compiler's refusal: what the program needs of one device and what the device has, in its own
    words (`83.30 GiB`).
    """

    needed: str
    available: str


def out_of_memory(message: str) -> OutOfMemory | None:
    """Return the memory figures of a compiler's error; None if it is about something else."""
    for refusal in _REFUSALS:
        if match := refusal.search(message):
            needed, unit, available, other = match.groups()
            return OutOfMemory(f"{needed} {_binary_unit(unit)}", f"{available} {_binary_unit(other)}")
    return None


def _binary_unit(letter: str) -> str:
    return f"{letter}iB" if letter else "B"


def needs_bytes(program: Program, topology: Topology) -> tuple[int, bool]:
    """Return the bytes that a program needs on one device, and whether they are all. On a TPU without the compiler's
    peak only the memory held from the begin of the call to its end is known, because temporaries share space.
    """
    if topology.platform == "tpu" and not program.peak_bytes:
        return program.argument_bytes + program.output_bytes - program.alias_bytes, False
    return program.memory_bytes, True


def memory_text(program: Program, topology: Topology) -> str:
    """Return a sentence on the memory that a program needs on a device."""
    needs, whole = needs_bytes(program, topology)
    by = (
        "at its peak"
        if program.peak_bytes
        else "in all"
        if whole
        else "or more (this jaxlib reports no peak)"
    )
    return (
        f"needs {size_text(needs)} {by} of the {size_text(topology.hbm_bytes)} per device: arguments "
        f"{size_text(program.argument_bytes)}, outputs {size_text(program.output_bytes)} "
        f"({size_text(program.alias_bytes)} in donated buffers), temporaries "
        f"{size_text(program.temporary_bytes)}"
    )


def check_fits(program: Program, topology: Topology, hbm_max: int | None) -> list[Failure]:
    """A failure where a program needs more of a device than `hbm_max` bytes, or than the device has."""
    limit, called = topology.hbm_bytes, f"{topology.chip} has"
    if hbm_max is not None and hbm_max <= limit:
        limit, called = hbm_max, "hbm_max is"
    needs, _ = needs_bytes(program, topology)
    if needs <= limit:
        return []
    message = f"needs {size_text(needs)} of each device's memory, {called} {size_text(limit)}"
    return [Failure("memory", message)]
