"""The accelerators level `topology` compiles for, by name, and what their compilers say of memory. No jax.

A name is a chip and how many of them lie where. TPUs by their torus: `v5e:4x4`, `v6e:16x16` (two
numbers), `v5p:2x2x4` (three). GPUs by host: `h100:8` (one host with 8), `h100:4x8` (four hosts with 8 each).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

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
    def devices(self) -> int:
        """How many devices there are."""
        return math.prod(self.shape)

    @property
    def wanted(self) -> str:
        """What jax calls it."""
        if self.platform == "tpu":
            return self.name
        hosts, each = (1, *self.shape)[-2:]
        return f"1x{hosts}x{each}"  # slices (joined by NVLink across hosts), hosts, devices of a host

    @property
    def install(self) -> str:
        """What makes the compiler available."""
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
        raise ValueError(f"{text!r} is no topology known here; write {known}")
    known_chip = _CHIPS[chip]
    if not re.fullmatch(r"[1-9]\d*(x[1-9]\d*)*", numbers):
        raise ValueError(f"{text!r} does not say how many chips lie where; write {known_chip.example}")
    shape = tuple(map(int, numbers.split("x")))
    if len(shape) not in known_chip.numbers:
        counts = " or ".join(map(str, known_chip.numbers))
        raise ValueError(
            f"{text!r} has {len(shape)} numbers, and {chip} takes {counts}; write {known_chip.example}"
        )
    return Topology(f"{chip}:{numbers}", chip, shape, known_chip.platform, known_chip.hbm_bytes)


# As libtpu has written it: "(83.30G) exceeds available HBM (15.75G)", and before 2025 "Used 83.30G of 15.75G hbm".
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
    """What a compiler's error says of memory, or None where it is about something else."""
    for refusal in _REFUSALS:
        if match := refusal.search(message):
            needed, unit, available, other = match.groups()
            return OutOfMemory(f"{needed} {_unit(unit)}", f"{available} {_unit(other)}")
    return None


def _unit(letter: str) -> str:
    return f"{letter}iB" if letter else "B"
