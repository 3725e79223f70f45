"""How a process tells the one that started it what it found: lines of JSON, each behind a mark, for the program it
runs may write to the same pipe.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

Message = dict[str, Any]

SPOILT = "wrote to the pipe on which the verifier hears of it: write only to descriptors the program opened"


def new_mark() -> str:
    """A mark no program writes by chance."""
    return os.urandom(8).hex()


def sender(descriptor: int, mark: str) -> Callable[[Message], None]:
    """What sends messages from this process, and nothing from copies of it that its program forks."""
    own, getpid = os.getpid(), os.getpid

    def send(message: Message) -> None:
        if getpid() == own:
            write_line(descriptor, message, mark)

    return send


def write_line(descriptor: int, message: Message, mark: str = "") -> None:
    """Write one message as a line of JSON, all of it."""
    data = memoryview(mark.encode() + json.dumps(message).encode() + b"\n")
    while data:
        data = data[os.write(descriptor, data) :]


class Incoming:
    """The messages that come from a pipe; none behind the first thing that is no message (`spoilt`)."""

    def __init__(self, mark: str) -> None:
        self.mark = mark.encode()
        self.spoilt = False
        self._line = bytearray()

    def take(self, data: bytes) -> list[Message]:
        """The messages that are whole with this data."""
        found: list[Message] = []
        first, *others = data.split(b"\n")
        self._line += first
        for other in others:
            self._check()
            if self.spoilt:
                break
            try:
                found.append(json.loads(self._line[len(self.mark) :]))
            except ValueError:
                self.spoilt = True
            self._line = bytearray(other)
        # Not only of whole lines: what is no message need not end.
        self._check()
        return found

    def _check(self) -> None:
        if self.mark[: len(self._line)] != self._line[: len(self.mark)]:
            self.spoilt = True
