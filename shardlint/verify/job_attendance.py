"""The parent's side of a job: takes what its process tells, answers what it asks, and says whether to trust it.

It runs where no user code does. No jax.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shardlint.verify import challenge, messages
from shardlint.verify.cache import Cache

Job = dict[str, Any]
# Tasks that judge a program in the process that ran it.
_CHALLENGED = ("fixture", "topology")
_KEPT_MAX = 64


class Attendant:
    """One job's. `reply` writes to its process, and may fail as `os.write` does; `secret` is the cache's."""

    def __init__(self, job: Job, mark: str, reply: Callable[[bytes], object], secret: str) -> None:
        self.incoming = messages.Incoming(mark)
        self.distrust = ""
        self.done = False
        self._job, self._reply = job, reply
        folder = job.get("cache")
        self._cache = None if folder is None else Cache(Path(folder), secret=secret)
        self._keep: list[tuple[str, dict[str, Any]]] = []
        self._seed = ""
        self._answered = job["task"] not in _CHALLENGED or not job.get("levels")

    @property
    def is_output_corrupt(self) -> bool:
        """True if something else than messages came."""
        return self.incoming.spoilt

    def take_messages(self, data: bytes) -> list[messages.Message]:
        """The messages for whoever gave the job, of those that are whole with this data."""
        return [message for message in self.incoming.take_messages(data) if not self._take_message(message)]

    def _take_message(self, message: messages.Message) -> bool:
        if "recall" in message:
            self._send_answer({"vouched": self._vouch_for_key(message["recall"])})
        elif "keep" in message:
            if len(self._keep) < _KEPT_MAX and isinstance(message.get("value"), dict):
                self._keep.append((str(message["keep"]), message["value"]))
        elif "judged" in message:
            if self._seed:
                self._distrust_worker('it reported "done" twice')
            self._seed = challenge.new_seed()
            self._send_answer({"seed": self._seed})
        elif "answers" in message:
            wrong = challenge.explain_missed(self._seed, self._job["devices"], message["answers"])
            self._answered = bool(self._seed)
            if wrong:
                self._distrust_worker(f"the checks were changed while the program ran: {wrong}")
        elif "distrust" in message:
            self._distrust_worker(str(message["distrust"])[:2000])
        else:
            self.done = self.done or "done" in message
            if "result" in message and self._seed:
                self._distrust_worker('it reported a result after "done"')
            return False
        return True

    def _vouch_for_key(self, key: object) -> str | None:
        return self._cache.verified_digest(key) if self._cache is not None and isinstance(key, str) else None

    def _send_answer(self, message: messages.Message) -> None:
        data = json.dumps(message).encode() + b"\n"
        try:
            self._reply(data)
        except OSError:  # it has ended, or never reads: its limits are for that
            self._distrust_worker("it did not read its answer")

    def _distrust_worker(self, why: str) -> None:
        self.distrust = self.distrust or why

    def end_process(self, stopped: str) -> str:
        """Take in the end of the process (`stopped`: how, "" for well); why it is not to be trusted, "" where it is."""
        if self.done and not self._answered:
            self._distrust_worker("it ended without showing that its checks were unchanged")
        if self.done and not (stopped or self.distrust or self.is_output_corrupt) and self._cache is not None:
            for key, value in self._keep:
                self._cache.put_entry(key, value)
        return self.distrust


def descriptor_writer(descriptor: int) -> Callable[[bytes], object]:
    """Return a function that writes to a descriptor."""
    return lambda data: os.write(descriptor, data)
