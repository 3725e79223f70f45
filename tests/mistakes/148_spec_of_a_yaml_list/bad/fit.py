import jax
import numpy as np

from gp import cg, gram
from layout import Layout


def main(path="layout.yaml"):
    lay = Layout.load(path)
    n = lay.kernel["points"]
    rng = np.random.default_rng(0)
    x = jax.device_put(rng.uniform(-2, 2, (n, 3)).astype(np.float32), lay["points"])
    y = jax.numpy.sin(x.sum(1))
    k = gram(lay, x)
    alpha, hist = cg(k, y, 20)
    print("residual", float(hist[0]), "->", float(hist[-1]))
    return k, alpha


if __name__ == "__main__":
    main()
