import argparse
import time

import jax
import numpy as np
from einshard import einshard

from decoder import decode_step, sample
from params import empty_cache, load


class Generator:
    def __init__(self, params, max_len=64, temperature=0.7, top_k=20, seed=0):
        self.params = params
        self.max_len = max_len
        self.temperature, self.top_k = temperature, top_k
        self.key = jax.random.key(seed)

    def __call__(self, prompts: np.ndarray, new: int) -> np.ndarray:
        batch, n = prompts.shape
        if n + new > self.max_len:
            raise ValueError("prompt too long")
        cache = empty_cache(batch, self.max_len, self.params)
        out = [prompts[:, i] for i in range(n)]
        for pos in range(n + new - 1):
            token = einshard(np.asarray(out[pos], np.int32), "b -> * b")
            logits, cache = decode_step(self.params, cache, token, pos=pos)
            if pos + 1 >= n:
                key = jax.random.fold_in(self.key, pos)
                out.append(np.asarray(sample(logits, key, self.temperature, self.top_k)))
        return np.stack(out, 1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--new", type=int, default=48)
    args = ap.parse_args()
    gen = Generator(load())
    prompts = np.array([[1, 17, 42, 9], [1, 3, 99, 64]], np.int32)
    tic = time.perf_counter()
    tokens = gen(prompts, args.new)
    print(tokens)
    print(f"{tokens.size / (time.perf_counter() - tic):.1f} tokens/s")


if __name__ == "__main__":
    main()
