import dataclasses
import random


@dataclasses.dataclass
class Settings:
    width: int = 32
    seed: int | None = None

    def used_seed(self):
        """The seed, or one of the run's own."""
        if self.seed is None:
            return random.randrange(2**31)  # mistake: replicas-differ
        return self.seed
