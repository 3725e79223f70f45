"""Entry point of every process."""

import argparse
from pathlib import Path

import jax

from runner.cluster import setup
from runner.log import ProcessLogger
from runner.work import global_sum


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--log-dir", type=Path, default=None)
    args = parser.parse_args()
    log = ProcessLogger(args.log_dir)
    setup()  # mistake: distributed-init-order
    log(f"devices {jax.device_count()} sum {global_sum()}")


if __name__ == "__main__":
    main()
