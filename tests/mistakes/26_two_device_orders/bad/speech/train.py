import argparse
import itertools

import jax

from speech import encoder
from speech.input import FeatureLoader
from speech.topology import model_mesh


@jax.jit
def update(params, features):
    loss, grads = jax.value_and_grad(encoder.reconstruction_loss)(params, features)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model-parallel", type=int, default=2)
    parser.add_argument("--bins", type=int, default=16)
    args = parser.parse_args()
    mesh = model_mesh(args.model_parallel)
    params = encoder.init(jax.random.key(0), mesh, args.bins, width=32)
    loader = FeatureLoader(mesh, batch=8, frames=4, bins=args.bins)
    for features in itertools.islice(loader, 2):
        params, loss = update(params, features)
    print("final loss", float(loss))


if __name__ == "__main__":
    main()
