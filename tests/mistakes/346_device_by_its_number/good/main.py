import config
import jax
import numpy as np
from agent import Agent


def main(steps=2):
    config.start()
    agent = Agent(config.parse_device("cpu:1"))
    rng = np.random.default_rng(jax.process_index())
    for _ in range(steps):
        actions = np.asarray(agent.act(rng.standard_normal((3, 4)).astype("float32")))
    print("process", jax.process_index(), "acted", actions.shape[0], "times")


if __name__ == "__main__":
    main()
