"""The lines by which processes tell what they found, and what is no such line."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from shardlint.verify import messages
from shardlint.verify.inside import errors

MARK = "0123456789abcdef"


def _written(sent: list[messages.Message]) -> bytes:
    """Return the bytes that a sender writes."""
    read, write = os.pipe()
    send = messages.message_sender(write, MARK)
    for message in sent:
        send(message)
    os.close(write)
    with open(read, "rb") as pipe:  # noqa: PTH123  # a descriptor
        return pipe.read()


def test_a_line_that_was_sent_before_is_no_message() -> None:
    data = _written([{"a": 1}, {"b": 2}])
    incoming = messages.Incoming(MARK)
    assert incoming.take_messages(data + data.splitlines(keepends=True)[0]) == [{"a": 1}, {"b": 2}]
    assert incoming.spoilt


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_messages_come_whole_whatever_the_pieces(size: int) -> None:
    sent = [{"a": "\ud800" * 50}, {}, {"b": [1, "\n"]}]
    data = _written(sent)
    incoming = messages.Incoming(MARK)
    got = [message for at in range(0, len(data), size) for message in incoming.take_messages(data[at : at + size])]
    assert got == sent
    assert not incoming.spoilt


@pytest.mark.parametrize("data", [b"x", b"\n", b"5\n", MARK.encode() + b"no json\n", b"0123x"])
def test_what_is_no_message_ends_them(data: bytes) -> None:
    incoming = messages.Incoming(MARK)
    good = MARK.encode() + b'{"a": 1}\n'
    assert incoming.take_messages(good + data + b"\n" + good) == [{"a": 1}]
    assert incoming.spoilt
    incoming = messages.Incoming(MARK)
    incoming.take_messages(data)
    assert incoming.spoilt
    assert incoming.take_messages(good) == []


@pytest.mark.skipif(sys.platform == "win32", reason="descriptors as Unix has them")
def test_a_standard_stream_that_is_closed_is_opened_to_nowhere() -> None:
    code = "import os; from shardlint.verify.inside import captured_stderr; os.close(2)\n"
    code += "with captured_stderr.listen_to_stderr() as found: os.write(2, b'said')\nassert found == ['said'], found"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("stream", [None, 5])
def test_flushing_needs_no_streams(monkeypatch: pytest.MonkeyPatch, stream: object) -> None:
    monkeypatch.setattr(sys, "stdout", stream)
    errors.flush_output()


def test_what_is_too_long_to_show_is_cut() -> None:
    assert errors.cut_text("x" * 4000) == "x" * 4000
    assert errors.cut_text("x" * 4001) == "x" * 4000 + "... (1 more characters)"
