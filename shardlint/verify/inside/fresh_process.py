"""One job in a process of its own, for systems where forking a process that has imported jax is not safe."""

from __future__ import annotations

import os

from shardlint.verify import containment, messages
from shardlint.verify.inside import exits, stacks, tasks, zygote


def main() -> None:
    """Do the job given as one line of JSON on standard input; answer on standard output."""
    containment.adopt_orphans()
    containment.heed_signals()
    answers = os.dup(1)
    os.dup2(2, 1)
    orders = os.dup(0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    job = messages.read_line(orders)
    if job["task"] == "greet":
        messages.write_line(answers, zygote.import_and_greet())
        return
    if "stack" in job:
        stacks.dump_to(os.open(job.pop("stack"), os.O_WRONLY | os.O_APPEND))
    tasks.run_job(job, answers, job.pop("mark"), orders)
    exits.exit_now(0)
