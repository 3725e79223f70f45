"""Shapes as HLO writes them: `bf16[16,64]{1,0}`, or a tuple of such."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

_ARRAY = re.compile(r"\b([a-z]+\d*[a-z0-9]*)\[([<=\d,]*)\]")
_BITS = {"pred": 8, "token": 0, "opaque": 0, "bf16": 16}


@dataclass(frozen=True)
class Shape:
    """An array's type and dimensions."""

    dtype: str
    dims: tuple[int, ...]

    @property
    def byte_count(self) -> int:
        """Bytes of the array; types of less than a byte are packed."""
        return math.ceil(math.prod(self.dims) * bits_of_dtype(self.dtype) / 8)

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.dims))}]"


def bits_of_dtype(dtype: str) -> int:
    """Bits of one element: `f8e4m3fn` 8, `c64` 64; 0 for what is not a number."""
    if dtype in _BITS:
        return _BITS[dtype]
    match = re.match(r"[a-z]+(\d+)", dtype)
    return int(match[1]) if match else 0


def parse_arrays(text: str) -> list[Shape]:
    """The arrays of a shape, those of a tuple one after the other."""
    return [
        Shape(dtype, tuple(int(size.lstrip("<=")) for size in dims.split(",") if size))
        for dtype, dims in _ARRAY.findall(text)
    ]
