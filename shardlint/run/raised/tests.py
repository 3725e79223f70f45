"""Recording of test failures under `shardlint run -- pytest`, by the plugin in the process of the tests."""

from __future__ import annotations

import sys


def put_down(error: BaseException, test: str) -> None:
    """Put down what failed a test, with what was noted of it when it was raised."""
    tell = getattr(sys.modules.get("_shardlint_observe"), "tell", None)
    if tell is not None:
        tell(error, "", test)
