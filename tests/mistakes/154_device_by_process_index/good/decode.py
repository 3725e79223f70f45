"""Each process decodes its own images on its first device, in batches, and says how bright they are."""
import argparse

import jax
import jax.numpy as jnp
import numpy as np

import devices


@jax.jit
def decode(codes, book):
    """Images of (count, codes * width) from the numbers of their patches."""
    return jnp.tanh(book[codes]).reshape(codes.shape[0], -1)


class Decoder:
    """Holds the code book where this process decodes."""

    def __init__(self, width, seed):
        self.device = devices.scratch_device()
        rng = np.random.default_rng(seed)
        book = rng.normal(size=(16, width)).astype(np.float32)
        self.book = jax.device_put(book, self.device)

    def __call__(self, codes):
        return decode(jax.device_put(codes, self.device), self.book)


def batches(count, size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield rng.integers(0, 16, size=(size, 6))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=3)
    parser.add_argument("--width", type=int, default=8)
    args = parser.parse_args()
    devices.connect()
    decoder = Decoder(args.width, seed=0)
    for codes in batches(args.batches, 4, seed=jax.process_index()):
        images = decoder(codes)
        bright = float(jnp.mean(images))
    place = jax.local_devices().index(next(iter(images.devices())))
    print(
        f"process {jax.process_index()} decoded {images.shape} on local device {place}, mean {bright:.3f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
