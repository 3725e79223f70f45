"""The layers of `equinox.nn`: which of their leaves are no arrays. The same on equinox 0.11.5 to 0.13.8. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Kind = Literal["array", "function", "text", "number"]

_POOLS = """
Pool AvgPool1d AvgPool2d AvgPool3d MaxPool1d MaxPool2d MaxPool3d AdaptivePool AdaptiveAvgPool1d AdaptiveAvgPool2d
AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d
""".split()
_WEIGHTS = """
Linear Conv Conv1d Conv2d Conv3d ConvTranspose ConvTranspose1d ConvTranspose2d ConvTranspose3d GRUCell LSTMCell
""".split()

ARRAYS_ONLY = frozenset([*_WEIGHTS, "Embedding", "LayerNorm", "RMSNorm", "GroupNorm", "PReLU", "Identity"])

LEAVES: Mapping[str, tuple[tuple[str, Kind], ...]] = {
    **dict.fromkeys(_WEIGHTS, (("weight", "array"),)),
    "Embedding": (("weight", "array"),),
    "LayerNorm": (),
    "RMSNorm": (),
    "GroupNorm": (),
    "PReLU": (("negative_slope", "array"),),
    "Identity": (),
    "RotaryPositionalEmbedding": (),
    "StateIndex": (),
    "MLP": (("layers[0].weight", "array"),),
    "Lambda": (),
    "Sequential": (),
    "Dropout": (("p", "number"), ("inference", "number")),
    "MultiheadAttention": (
        ("query_proj.weight", "array"),
        ("dropout.p", "number"),
        ("dropout.inference", "number"),
    ),
    "BatchNorm": (("axis_name", "text"), ("inference", "number")),
    "SpectralNorm": (("inference", "number"),),
    "WeightNorm": (("_norm", "function"),),
    **dict.fromkeys(_POOLS, (("operation", "function"),)),
}
"""The leaves each has whatever it is built with."""

FUNCTION_PARAMETERS: Mapping[str, Mapping[str, int]] = {
    "MLP": {"activation": 4, "final_activation": 5},
    "Lambda": {"fn": 0},
}
"""Arguments that are functions by default and kept as leaves, with their positions."""

WRAPPING: Mapping[str, str] = {"Sequential": "layers", "SpectralNorm": "layer", "WeightNorm": "layer"}
"""The argument that is other Modules."""
