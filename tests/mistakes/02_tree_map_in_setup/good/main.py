import numpy as np

from trainer.loop import Trainer


def batches(n=2, size=16, dim=32):
    rng = np.random.default_rng(0)
    for _ in range(n):
        x = rng.normal(size=(size, dim)).astype(np.float32)
        yield x, np.roll(x, 1, axis=-1)


if __name__ == "__main__":
    trainer = Trainer(data_parallel=2, model_parallel=4)
    trainer.setup(seed=0)
    up = trainer.params["blocks"][0]["up"]
    print("devices holding blocks/0/up:", len(up.sharding.device_set))
    print("loss", trainer.fit(batches()))
