import argparse

import cluster
import config
from trainer import Trainer


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--config", default="base")
    args = ap.parse_args()
    cluster.setup()
    cfg = config.load(args.config)
    cluster.log(f"{cfg.name}: global batch {cfg.global_batch}, fsdp {cfg.fsdp}")
    Trainer(cfg).run()


if __name__ == "__main__":
    main()
