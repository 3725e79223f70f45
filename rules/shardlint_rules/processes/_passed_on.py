"""Numbers of examples that are given another name as they are, and the name says that they are of others."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.process.scales import ALL, ANY, WORDS, amount, named
from shardlint.model.values import Place
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import last_name
from shardlint.syntax.nodes import walk
from shardlint_rules.processes._whose import Contradiction, parameter
from shardlint_rules.processes.alone import alone

TAKES_ALL = r"[^#\n]*batch\w*\s*(?:=\s*|\()(?:int\()?[\w.\[\"']*(?:global|overall)_\w*batch"
"""Lines on which a number of all processes may be given another name, or made batches of."""
GIVES_ALL = r"[^#\n]*(?:global|overall)_\w*batch\w*[\"'\])]*\s*[,)]"
"""Lines on which one may be an argument by position."""
_BATCHING = ("batch", "padded_batch", "Batch", "BatchDataset")
# What shows that a pipeline is of one process: each has its own part.
_SHARED_OUT = regex(r"process_index|host_id\(|host_index|shard_index|(?:num|n)_hosts|process_count|host_count")


def passed_on(site: Site) -> Iterator[Contradiction]:
    """`per_host_batch_size = config.global_batch_size`, `dataset.batch(global_batch_size)` of a part of the data."""
    statement = site.syntax
    if not isinstance(statement, ast.stmt) or alone(site.program, Place(site.file, statement)):
        return
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        once = not isinstance(target, ast.Name) or len(site.file.bindings(site.file.home(target), target.id)) == 1
        found = _other(site, last_name(target), statement.value) if once else None
        if found is not None:
            yield found
            return
    for call in walk(statement):
        if not isinstance(call, ast.Call) or isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.If):
            continue
        for keyword in call.keywords:
            found = _other(site, keyword.arg or "", keyword.value)
            if found is not None:
                yield found
        for given in call.args:
            name = parameter(site, call, given) if _is_all(site, given) else ""
            found = _other(site, name, given)
            if found is not None:
                yield found
        if last_name(call.func) in _BATCHING:
            yield from _batched(site, call)


def _other(site: Site, name: str, value: ast.expr) -> Contradiction | None:
    """What is wrong with a name for a number, which is given as it is."""
    says = named(name)
    if not says or says == ANY or not _is_all(site, value):
        return None
    if ALL in says:
        return None
    whose = " or ".join(WORDS[one] for one in sorted(says))
    return Contradiction(
        value,
        "of all processes",
        f"`{name}` is {whose}, and `{site.shown(value)}` of all: it is not divided.",
        "passed",
        f"the names `{name}` and `{site.shown(value)}`",
    )


def _batched(site: Site, call: ast.Call) -> Iterator[Contradiction]:
    """The batches of a pipeline that has the part of one process."""
    size = call.args[0] if call.args else next((one.value for one in call.keywords if one.arg == "batch_size"), None)
    function = site.file.home(call).function()
    if size is None or function is None or not isinstance(call.func, ast.Attribute) or not _is_all(site, size):
        return
    receiver = call.func.value
    root = receiver
    while isinstance(root, ast.Call | ast.Attribute | ast.Subscript):
        root = root.func if isinstance(root, ast.Call) else root.value
    made = [
        one.value
        for one in walk(function.node)
        if isinstance(one, ast.Assign) and isinstance(root, ast.Name) and last_name(one.targets[0]) == root.id
    ]
    shared = [
        one
        for part in (receiver, *made)
        for one in walk(part)
        if isinstance(one, ast.Call)
        and last_name(one.func) in ("shard", "ShardOptions", "ReadConfig", "InputContext", "ShardByJaxProcess")
        and (last_name(one.func) == "ShardByJaxProcess" or _SHARED_OUT.search(site.text(one)))
    ]
    if shared:
        yield Contradiction(
            size,
            "of all processes",
            f"`{site.shown(size)}` is of all processes, and the data are the part of one: the batch is larger by the "
            "number of processes.",
            "batched",
            f"line {shared[0].lineno}: `{site.shown(shared[0])}`",
        )


def _is_all(site: Site, value: ast.expr) -> bool:
    if not isinstance(value, ast.Name | ast.Attribute | ast.Subscript | ast.Call):
        return False
    made = amount(site.program, site.file, value)
    return made is not None and made.scales == {ALL} and not made.counted
