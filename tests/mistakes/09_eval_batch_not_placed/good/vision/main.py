import argparse

import jax
from jax.sharding import Mesh

from vision.data import loader
from vision.experiment import Experiment


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--batch-size", type=int, default=64)
    args = parser.parse_args()
    experiment = Experiment(Mesh(jax.devices(), ("data",)), args.lr)
    experiment.train(loader(3, args.batch_size, seed=0))
    accuracy = experiment.evaluate(loader(2, args.batch_size, seed=1))
    print(f"accuracy {accuracy:.3f}")
    print("eval logits shard:", experiment.last_scores.addressable_shards[0].data.shape)


if __name__ == "__main__":
    main()
