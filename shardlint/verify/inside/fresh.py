"""One job in a process of its own, for systems where forking a process that has imported jax is not safe."""

from __future__ import annotations

import json
import os
import sys

from shardlint.verify import contain, messages
from shardlint.verify.inside import tasks, zygote


def main() -> None:
    """Do the job given as one line of JSON on standard input; answer on standard output."""
    contain.adopt_orphans()
    answers = os.dup(1)
    os.dup2(2, 1)
    job = json.loads(sys.stdin.readline())
    if job["task"] == "greet":
        messages.write_line(answers, zygote.greeting())
        return
    tasks.run(job, messages.sender(answers, job.pop("mark")))
    zygote.exit_now(0)
