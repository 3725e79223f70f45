import dataclasses

import jax


@dataclasses.dataclass
class Config:
    name: str
    per_device_batch: int
    context: int
    dim: int
    steps: int
    lr: float
    vocab: int = 256
    fsdp: int = -1
    global_batch: int = dataclasses.field(init=False)

    def __post_init__(self):
        if self.fsdp == -1:
            self.fsdp = jax.device_count()
        self.global_batch = self.per_device_batch * jax.device_count()


def load(name: str) -> Config:
    if name == "tiny":
        return Config("tiny", per_device_batch=2, context=32, dim=64, steps=3, lr=1e-2)
    if name == "base":
        return Config("base", per_device_batch=16, context=2048, dim=2048, steps=100_000, lr=3e-4)
    raise KeyError(name)
