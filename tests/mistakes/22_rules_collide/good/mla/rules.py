"""Logical axis rules of each parallelism preset."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Preset:
    fsdp: int
    tensor: int
    rules: tuple[tuple[str, str | None], ...]


PRESETS = {
    "fsdp": Preset(8, 1, (("activation_batch", "fsdp"), ("embed", "fsdp"), ("q_lora", None), ("heads", None), ("kv", None))),
    "mixed": Preset(
        2,
        4,
        (
            ("activation_batch", "fsdp"),
            ("embed", "fsdp"),
            ("q_lora", None),
            ("heads", "fsdp"),
            ("kv", "tensor"),
        ),
    ),
}
