import dataclasses


@dataclasses.dataclass(frozen=True)
class MeshConfig:
    dp: int = 4
    tp: int = 2

    @property
    def shape(self):
        return (self.dp, self.tp)

    names = ("dp", "tp")


@dataclasses.dataclass(frozen=True)
class Config:
    mesh: MeshConfig = MeshConfig()
    lr: float = 0.1
    d: int = 8
    ff: int = 32
