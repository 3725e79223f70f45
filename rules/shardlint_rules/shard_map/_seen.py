"""What the calls of a mapped function, and its definition, tell of its arguments and results. Shared by rules."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model import Program
from shardlint.model.api import JIT_WRAPPERS
from shardlint.model.guards import expected_to_fail
from shardlint.model.values import Place, Transformed, Value, options
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts


@dataclass(frozen=True)
class Seen:
    """A call of what a site's `shard_map` made, and what is called."""

    file: FileFacts
    call: ast.Call
    called: Value

    def setting(self, program: Program, name: str) -> Value | None:
        """What the `shard_map` was given for a keyword, on the way by which what is called was made."""
        made = self.called
        while isinstance(made, Transformed) and made.api.name in JIT_WRAPPERS:
            made = made.inner
        if not isinstance(made, Transformed) or made.call is None:
            return None
        place = made.call.keywords.get(name)
        return program.evaluator.value(place, made.call.environment) if place is not None else None

    @property
    def count(self) -> int | None:
        """How many arguments are given; None where a star hides it."""
        if self.call.keywords or any(isinstance(one, ast.Starred) for one in self.call.args):
            return None
        return len(self.call.args)

    @property
    def unpacked(self) -> ast.Tuple | ast.List | None:
        """What the results are unpacked into: `a, b = mapped(x)`."""
        parent = self.file.parent(self.call)
        if not isinstance(parent, ast.Assign) or len(parent.targets) != 1:
            return None
        target = parent.targets[0]
        if not isinstance(target, ast.Tuple | ast.List):
            return None
        return None if any(isinstance(one, ast.Starred) for one in target.elts) else target


def seen_calls(site: Site, call: ast.Call) -> Iterator[Seen]:
    """The calls that surely run what a `shard_map` call or decorator makes, and nothing else."""
    program, parent = site.program, site.file.parent(call)
    if isinstance(parent, ast.FunctionDef):
        if parent.decorator_list != [call]:
            return
        ends = program.flow.ends(site.file, parent)
    else:
        applied = isinstance(parent, ast.Call) and parent.func is call
        made = site.form == "partial" or not (call.args or any(one.arg == "f" for one in call.keywords))
        if made and not applied:
            return
        ends = program.flow.calls(Place(site.file, parent if made and parent is not None else call))
    for end in ends.found:
        file, node = end.place.file, end.place.node
        if end.kind != "called" or not isinstance(node, ast.Call) or expected_to_fail(file, node):
            continue
        if any(one.api not in (*JIT_WRAPPERS, "jax.shard_map") for one in end.wrappers):
            continue
        called = options(program.value(file, node.func))
        if len(called) == 1:
            yield Seen(file, node, called[0])
