"""`first_calls`: what a program gives to its jitted functions, and what they give. Imports no jax itself."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def first_calls(
    script: str,
    arguments: Sequence[str] = (),
    functions: Mapping[str, str] | None = None,
    gone: Mapping[str, Mapping[str, int]] | None = None,
) -> dict[str, dict[str, Any]]:
    """The arrays of the first call of some jitted functions of a program, for the `fn` of a fixture.

    `script` is a file, relative to the working directory or to the file of the caller, or `"-m package.module"`; it is
    run with these `arguments` until the last of the functions was called, and no further. `functions` are
    `"file.py:qualname"` by the name they have here: `{"step": "train.py:main.<locals>.step"}`. `gone` says how many
    arrays of which arguments must have been donated: `{"step": {"args/0": 12}}`.

    Gives arrays by name and path, `"step"` and `"args/0/params/w"` or `"result/1"`. Those of arguments are zeros,
    placed as the program placed its own. Whatever the program writes until then it writes again.

    Raises what the program raises; `LookupError` where it ends without having called one of them, `AssertionError`
    where fewer arrays were donated.
    """
    from shardlint.verify.inside.first_calls import run_script

    if not script.startswith("-m ") and not Path(script).exists():
        script = str(Path(sys._getframe(1).f_globals.get("__file__", "")).parent / script)
    return run_script(script, arguments, functions or {}, gone or {})
