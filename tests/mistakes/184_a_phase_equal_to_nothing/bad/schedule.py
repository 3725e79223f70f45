"""What the step needs to know about the current phase of training."""

class Phase:  # mistake: static-argument-varies
    def __init__(self, name: str, label_smoothing: float, freeze_embed: bool):
        self.name = name
        self.label_smoothing = label_smoothing
        self.freeze_embed = freeze_embed


def phase_at(step: int, warm: int) -> Phase:
    if step < warm:
        return Phase("warm", 0.0, True)
    return Phase("main", 0.1, False)
