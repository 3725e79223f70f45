from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    vocab: int = 100
    dim: int = 32
    experts: int = 4
    layers: int = 2
    classes: int = 7
    batch: int = 16
    length: int = 24
    steps: int = 3
    mesh: tuple = (("data", 2), ("expert", 4))
    rules: tuple = (
        ("batch", ("data", "expert")),
        ("batch_noexp", "data"),
        ("expert", "expert"),
        ("vocab", None),
        ("embed", None),
        ("mlp", None),
        ("unsharded", None),
    )
