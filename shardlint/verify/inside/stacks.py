"""Where a process stands, from what `faulthandler` wrote of it. No jax."""

from __future__ import annotations

import re

from shardlint.verify.inside import load

_FRAME = re.compile(r'  File "(.+)", line (\d+) in (.+)')


def users_line(dump: str) -> str:
    """The innermost line of the user's own code, `file.py:12 in step`; "" where there is none.

    Of several threads the one that has such a line counts, the main one (written last) above others.
    """
    for thread in reversed(dump.split("\n\n")):
        for file, line, name in _FRAME.findall(thread):
            if load.is_theirs(file):
                return f"{load.shown(file)}:{line} in {name}"
    return ""
