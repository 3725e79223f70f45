"""Starts the worker on two processes of this machine, each with four devices."""

import argparse
import os
import socket
import subprocess
import sys
from pathlib import Path


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def main() -> None:
    ap = argparse.ArgumentParser()
    ap.add_argument("--processes", type=int, default=2)
    ap.add_argument("--steps", type=int, default=4)
    args = ap.parse_args()
    port = free_port()
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    worker = str(Path(__file__).with_name("worker.py"))
    running = [
        subprocess.Popen(
            [sys.executable, worker, f"127.0.0.1:{port}", str(args.processes), str(rank), "--steps", str(args.steps)],
            env=env,
        )
        for rank in range(args.processes)
    ]
    for p in running:
        if p.wait() != 0:
            raise SystemExit("a worker failed")


if __name__ == "__main__":
    main()
