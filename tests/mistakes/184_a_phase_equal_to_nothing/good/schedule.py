"""What the step needs to know about the current phase of training."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Phase:
    name: str
    label_smoothing: float
    freeze_embed: bool


def phase_at(step: int, warm: int) -> Phase:
    if step < warm:
        return Phase("warm", 0.0, True)
    return Phase("main", 0.1, False)
