"""Early stopping on a validation loss."""
import dataclasses


@dataclasses.dataclass
class EarlyStopping:
    patience: int
    min_delta: float = 1e-3
    best: float = float("inf")
    stale: int = 0

    def should_stop(self, value):
        if value < self.best - self.min_delta:
            self.best, self.stale = value, 0
        else:
            self.stale += 1
        return self.stale >= self.patience
