"""How a process tells the one that started it what it found: lines of JSON, each behind a mark, for the program it
runs may write to the same pipe.

Each line's mark is made of the line before it, so that one put in between by another hand makes all later ones wrong.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Collection
from typing import Any

Message = dict[str, Any]
Send = Callable[[Message], None]

SPOILT = "wrote to the verifier's pipe: write only to file descriptors that the program opened"


def new_mark() -> str:
    """A mark no program writes by chance."""
    return os.urandom(16).hex()


def message_sender(descriptor: int, mark: str, known: Collection[int] | None = None) -> Send:
    """Return a function that sends messages from this process, and nothing from copies of it that its program forks.

    `known` are the ids of the code objects that may be running when it is called, its callers' callers included;
    a call that comes through any other is told instead of the message.
    """
    own, getpid, frame_of, dumps, write = os.getpid(), os.getpid, sys._getframe, json.dumps, os.write

    def send_message(message: Message) -> None:
        nonlocal mark
        if getpid() != own:
            return
        if known is not None:
            frame = frame_of(1)
            while frame is not None:
                if id(frame.f_code) not in known:
                    place = f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
                    message = {"distrust": f"the program called a function of the verifier, at {place}"}
                    break
                frame = frame.f_back  # type: ignore[assignment]
        text = dumps(message).encode()
        data = memoryview(mark.encode() + text + b"\n")
        mark = _next_mark(mark, text)
        while data:
            data = data[write(descriptor, data) :]

    return send_message


def message_asker(send: Send, orders: int) -> Callable[[Message], Message]:
    """Return a function that sends a message and waits for the answer, which comes on a descriptor. In a copy of this
    process the answer is {}.
    """
    own, getpid = os.getpid(), os.getpid

    def ask_question(question: Message) -> Message:
        if getpid() != own:
            return {}
        send(question)
        return read_line(orders)

    return ask_question


def write_line(descriptor: int, message: Message) -> None:
    """Write one message as a line of JSON, all of it."""
    data = memoryview(json.dumps(message).encode() + b"\n")
    while data:
        data = data[os.write(descriptor, data) :]


def read_line(descriptor: int) -> Message:
    """Read one line of JSON. Raises `EOFError` where there is none any more."""
    data = bytearray()
    while not data.endswith(b"\n"):
        more = os.read(descriptor, 1)
        if not more:
            raise EOFError
        data += more
    answer: Message = json.loads(data)
    return answer


class Incoming:
    """The messages that come from a pipe; none behind the first thing that is no message (`spoilt`)."""

    def __init__(self, mark: str) -> None:
        self.mark = mark
        self.spoilt = False
        self._line = bytearray()

    def take_messages(self, data: bytes) -> list[Message]:
        """The messages that are whole with this data."""
        found: list[Message] = []
        first, *others = data.split(b"\n")
        self._line += first
        for other in others:
            self._check_mark()
            if self.spoilt:
                break
            text = bytes(self._line[len(self.mark) :])
            try:
                message = json.loads(text)
            except ValueError:
                message = None
            if not isinstance(message, dict):
                self.spoilt = True
                break
            found.append(message)
            self.mark = _next_mark(self.mark, text)
            self._line = bytearray(other)
        # Not only of whole lines: what is no message need not end.
        self._check_mark()
        return found

    def _check_mark(self) -> None:
        mark = self.mark.encode()
        if mark[: len(self._line)] != self._line[: len(mark)]:
            self.spoilt = True


def _next_mark(mark: str, text: bytes) -> str:
    return hashlib.blake2b(mark.encode() + text, digest_size=16).hexdigest()
