from dataclasses import dataclass


@dataclass(frozen=True)
class Names:
    examples: str = "dp"
    heads: str = "tp"
