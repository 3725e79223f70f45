"""Outcome of a job, from the messages and the exit of its process. The module does not import jax."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Job = dict[str, Any]

_LINES = 20


@dataclass
class Outcome:
    """Outcome of a job: the messages it sent and, if it was stopped early, how."""

    job: Job
    messages: list[dict[str, Any]] = field(default_factory=list)
    stopped: str = ""
    distrust: str = ""
    """Why nothing of what it sent is to be believed; "" where it is."""
    where: str = ""
    """The user's line it stood at when it was stopped, `file.py:12 in step`; "" where that is not known."""
    stack: list[str] = field(default_factory=list)
    """Where in its Python it stood then, innermost first."""
    output: list[str] = field(default_factory=list)
    seconds: float = 0.0
    kept: str = ""
    """When it was run, where it was not run now for nothing it rests on has changed."""

    def finish_process(self, end: dict[str, Any]) -> None:
        """Take in the end of the process."""
        own = next((message["stopped"] for message in self.messages if "stopped" in message), "")
        done = any("done" in message for message in self.messages)
        # What it sent does not count for more than its end: a program that is done may still crash.
        ended = "" if done else "ended too early, with exit code 0"
        self.stopped = own or end["stopped"] or ended
        self.distrust = end.get("distrust", "")
        if (end["stopped"] or ended) and (dump := end.get("stack")):
            from shardlint.verify.inside import stacks

            self.where, self.stack = stacks.users_line(dump), stacks.shown_frames(dump)
        self.output = [line.rstrip() for line in end["output"] if line.strip()][-_LINES:]
        self.seconds = end["seconds"]

    def values_of_key(self, key: str) -> list[Any]:
        """Return the value of every message under `key`."""
        return [message[key] for message in self.messages if key in message]
