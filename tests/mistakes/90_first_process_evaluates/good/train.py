"""Multi-process training with periodic evaluation."""
import jax

import task
from runtime import Runtime, start


class Trainer:
    def __init__(self, runtime, steps, eval_every):
        self.runtime = runtime
        self.steps = steps
        self.eval_every = eval_every
        init = jax.jit(task.init, out_shardings=runtime.replicated)
        self.params = init()

    def log(self, message):
        if self.runtime.is_chief:
            print(message, flush=True)

    def validate(self, step):
        x, y = map(self.runtime.spread, task.sample(512, seed=10_000))
        score = task.evaluate(self.params, x, y)
        self.log(f"step {step} accuracy {float(score):.4f}")

    def fit(self):
        for step in range(1, self.steps + 1):
            x, y = map(self.runtime.spread, task.sample(64, seed=step))
            self.params, value = task.update(self.params, x, y)
            if step % self.eval_every == 0:
                self.validate(step)
        self.log(f"finished, loss {float(value):.5f}")


def main():
    start()
    Trainer(Runtime(), steps=20, eval_every=10).fit()


if __name__ == "__main__":
    main()
