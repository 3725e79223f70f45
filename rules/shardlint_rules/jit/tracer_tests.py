"""Test for code that asks whether it is traced."""

from __future__ import annotations

from itertools import islice

from shardlint.rules_api.site import Site
from shardlint.syntax.path_tests import MOST_TESTS, tests_on_path

# What code says that asks whether it is traced.
_ASKS_TRACED = ("Tracer", "is_concrete", "trace_state_clean", "in_jit", "under_jit", "eval_context")


def knows_it_is_traced(site: Site) -> bool:
    """`if isinstance(x, Tracer)` and the like, around the place or before it: the code asks whether it is traced."""
    tests = (site.text(test) for test, _ in islice(tests_on_path(site.file, site.syntax), MOST_TESTS))
    return any(word in test for test in tests for word in _ASKS_TRACED)
