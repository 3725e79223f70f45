"""Numbers of examples that are those of one device, one process or all by one reason, and others' by another."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.passed import becomes
from shardlint.model.process.processes import is_index
from shardlint.model.process.scales import (
    ALL,
    CASTS,
    COUNTS,
    IS_BATCH,
    OWN_SHARDS,
    PROCESS,
    PROCESSES,
    WORDS,
    Scale,
    amount,
    count,
    named,
    with_number,
)
from shardlint.model.values import Place
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import regex
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.nodes import walk
from shardlint_rules.jit.how_many import settled_expression
from shardlint_rules.processes._quotients import standing_for

_CAST = (*CASTS, "max", "min")
_SHAPING = ("reshape", "empty", "zeros", "ones", "full", "create_device_mesh", "make_mesh", "broadcast_to")
_DEVICE = regex(r"(?i)^(?:d|dev|device|_?\w*_device)$")
_SHARED = regex(r"(?i)num_(?:hosts|processes|nodes|slices)|n_(?:hosts|procs)|world_size|dcn|slice")
_SEED = regex(r"(?i)seed|rng")
_SEEDING = regex(r"(?i)^(?:fold_in|prng_?key|key|seed|default_rng|set_seed|split)$")


@dataclass(frozen=True)
class Contradiction:
    """Two reasons that do not go together. `instead`: the count that would make them, where one alone does."""

    node: ast.expr
    label: str
    message: str
    form: str
    why: str
    instead: str = ""


def contradictions(site: Site) -> Iterator[Contradiction]:
    """What a count is used for that does not go with what else is known."""
    file, program = site.file, site.program
    counted = counted_by(site)
    scale = count(program, file, counted)
    if scale is None:
        return
    for use in uses_of(site, counted):
        found = (
            _itself(site, use, scale)
            or _twice(site, use, scale)
            or _ordinal(site, use, scale)
            or _offset(site, use, scale)
            or _named(site, use, scale)
            or _checked(site, use, scale)
        )
        if found is not None:
            yield found


def uses_of(site: Site, counted: ast.expr) -> Iterator[ast.expr]:
    """A count, what stands for it, and the calls of a function of the file that returns it."""
    file = site.file
    yield from standing_for(file, counted)
    function = file.home(counted).function()
    if function is None or not isinstance(file.parent(counted), ast.Return):
        return
    scale = count(site.program, file, counted)
    for one in file.mentions(function.name):
        parent = file.parent(one)
        read = parent if isinstance(parent, ast.Call) and parent.func is one else one
        if isinstance(read, ast.Call | ast.Attribute) and count(site.program, file, read) == scale:
            yield from standing_for(file, read)


def counted_by(site: Site) -> ast.expr:
    """The expression that is the number: the call, or `len` of it."""
    assert isinstance(site.call, ast.Call)
    parent = site.file.parent(site.call)
    if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name) and parent.func.id == "len":
        return parent
    return site.call


def whole(file: FileFacts, node: ast.expr) -> tuple[ast.expr, int]:
    """The whole product that a number is a factor of, and -1 where it is divided by."""
    sign = 1
    while True:
        parent = file.parent(node)
        match parent:
            case ast.BinOp(op=ast.Mult()):
                pass
            case ast.BinOp(op=ast.FloorDiv() | ast.Div(), right=right):
                sign = -sign if right is node else sign
            case ast.BinOp(op=ast.Add() | ast.Sub(), right=ast.Constant()):
                pass
            case ast.Call(func=func) if last_name(func) in _CAST and node in parent.args:
                pass
            case ast.IfExp(body=body, orelse=ast.Constant()) if body is node:
                pass
            case _:
                return node, sign
        assert isinstance(parent, ast.expr)
        node = parent


def name_of(file: FileFacts, node: ast.expr) -> str:
    """The name that a value gets: of a variable, an attribute, an argument, a key, or the function that returns it."""
    parent = file.parent(node)
    match parent:
        case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
            return last_name(target)
        case ast.keyword(arg=str() as name):
            return name
        case ast.Return():
            function = file.home(parent).function()
            return function.name if function is not None else ""
        case ast.Dict(keys=keys, values=values) if node in values:
            given = keys[values.index(node)]
            return str(given.value) if isinstance(given, ast.Constant) else ""
    return ""


def parameter(site: Site, call: ast.Call, given: ast.expr) -> str:
    """The name of the parameter that an argument by position is for, in a function or class of the project."""
    found = becomes(site.program.evaluator, site.value(call.func), Place(site.file, call), given)
    return next((one.name for one in found), "")


def _itself(site: Site, use: ast.expr, scale: Scale) -> Contradiction | None:
    """`jax.device_count() // len(jax.devices())`, `jax.device_count() == jax.device_count()`."""
    parent = site.file.parent(use)
    match parent:
        case ast.BinOp(left=left, op=ast.FloorDiv() | ast.Div() | ast.Mod() as op, right=right):
            gives = "0" if isinstance(op, ast.Mod) else "1"
        case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq() | ast.Gt() | ast.Lt() as op], comparators=[right]):
            gives = "true" if isinstance(op, ast.Eq) else "false"
        case _:
            return None
    if right is not use:
        return None  # told at the right one
    if isinstance(site.file.parent(parent), ast.Assert) or not (_bare(site, left) and _bare(site, use)):
        return None
    if count(site.program, site.file, left) != scale:
        return None
    return Contradiction(
        use,
        "the same count on both sides",
        f"`{site.shown(parent)}` is always {gives}: both sides count {_counts(scale)}.",
        "itself",
        "both are the same count",
    )


def _bare(site: Site, node: ast.expr) -> bool:
    """Whether a count is that of all platforms."""
    node = settled_expression(site.file, node)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len" and node.args:
        node = settled_expression(site.file, node.args[0])
    return isinstance(node, ast.Call) and not node.args and not node.keywords


def _twice(site: Site, use: ast.expr, scale: Scale) -> Contradiction | None:
    """`jax.process_count() * jax.device_count()`, and a shape of both."""
    file, parent = site.file, site.file.parent(use)
    if scale == PROCESSES and isinstance(parent, ast.BinOp) and parent.right is use:
        if isinstance(parent.op, ast.FloorDiv) and count(site.program, file, parent.left) == PROCESS:
            return Contradiction(
                parent.left,
                "the devices of one process",
                f"`{site.shown(parent)}` divides by the processes twice: these are the devices of one.",
                "twice",
                "jax.local_device_count() is a number of one process",
            )
    if scale != ALL:
        return None
    others: list[ast.expr] = []
    match parent:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            others = _factors(left if right is use else right)
        case ast.Tuple(elts=elts) | ast.List(elts=elts):
            call = file.parent(parent)
            if isinstance(call, ast.Call) and last_name(call.func) in _SHAPING:
                others = elts
        case ast.Call(args=args) if last_name(parent.func) == "reshape":
            others = args
    beside = any(count(site.program, file, one) == PROCESSES for one in others if one is not use)
    if parent is None or not beside:
        return None
    return Contradiction(
        use,
        "the devices of all processes",
        f"`{site.shown(parent)}` counts the processes twice: jax.device_count() has those of all in it.",
        "twice",
        "it stands beside the number of processes",
        "jax.local_device_count",
    )


def _factors(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return [*_factors(node.left), *_factors(node.right)]
    return [node]


def _ordinal(site: Site, use: ast.expr, scale: Scale) -> Contradiction | None:
    """`device.id % jax.device_count()`, which is the id, and `device.id // jax.device_count()`, which is 0."""
    parent = site.file.parent(use)
    if scale != ALL or not isinstance(parent, ast.BinOp) or parent.right is not use:
        return None
    if not isinstance(parent.op, ast.Mod | ast.FloorDiv) or not _is_id(parent.left):
        return None
    gives = "itself" if isinstance(parent.op, ast.Mod) else "0"
    return Contradiction(
        use,
        "the devices of all processes",
        f"The ids of devices count those of all processes: `{site.shown(parent)}` is {gives}.",
        "ordinal",
        f"`{site.shown(parent.left)}` is the id of a device",
        "jax.local_device_count",
    )


def _is_id(node: ast.expr) -> bool:
    if isinstance(node, ast.Attribute) and node.attr == "id":
        return _DEVICE.search(last_name(node.value)) is not None
    return last_name(node) in ("device_id", "dev_id")


def _offset(site: Site, use: ast.expr, scale: Scale) -> Contradiction | None:
    """`jax.process_index() * jax.device_count() + i`: where the devices of a process begin."""
    file, parent = site.file, site.file.parent(use)
    if scale != ALL or not isinstance(parent, ast.BinOp) or not isinstance(parent.op, ast.Mult):
        return None
    other = parent.left if parent.right is use else parent.right
    if not is_index(site.program, Place(file, other)):
        return None
    told = [last_name(one.func) for one in file.ancestors(parent) if isinstance(one, ast.Call)]
    if any(_SEEDING.search(one) for one in told) or _SEED.search(file.text(file.statement(parent))):
        return None  # other numbers for each process and device all the same
    return Contradiction(
        use,
        "the devices of all processes",
        f"`{site.shown(parent)}` leaves out those of the other processes: each has jax.local_device_count() devices.",
        "offset",
        "it is multiplied by the index of the process",
        "jax.local_device_count",
    )


def _named(site: Site, use: ast.expr, scale: Scale) -> Contradiction | None:
    """`per_host_batch_size = batch_size // jax.device_count()`, `local_device_count = jax.device_count()`."""
    top, sign = whole(site.file, use)
    name, parent = name_of(site.file, top), site.file.parent(top)
    if isinstance(parent, ast.Call) and top is not use and top in parent.args:
        name = parameter(site, parent, top)
    says = named(name)
    made = amount(site.program, site.file, top) if says else None
    if made is None and scale == ALL and sign > 0 and OWN_SHARDS.search(name):
        made = amount(site.program, site.file, use)  # shared out over the other axes of a mesh
        says = frozenset((PROCESS,))
    if made is not None and made.counted and IS_BATCH.search(name):
        made = with_number(made)  # one example of somebody: `global_batch = jax.process_count()`
    if made is None or made.plain or made.scales & says or _is_shared(site, top):
        return None
    better = _instead(made.scales, says, scale, sign)
    if not _tells(site, use, top, made.scales, says):
        return None
    whose = " or ".join(WORDS[one] for one in sorted(says))
    does = "divides by" if sign < 0 else "multiplies with" if top is not use else "is"
    return Contradiction(
        use,
        _counts(scale),
        f"`{name}` is {whose}, and `{site.shown(top)}` {does} {_counts(scale)}.",
        "named",
        f"the name `{name}`",
        better[0] if len(better) == 1 else "",
    )


def _instead(made: frozenset[Scale], says: frozenset[Scale], scale: Scale, sign: int) -> list[str]:
    """The counts with which a product would be of whom its name says it is."""
    return [
        api
        for api, other in COUNTS.items()
        if api != "jax.host_count"
        and {(a + sign * (other[0] - scale[0]), b + sign * (other[1] - scale[1])) for a, b in made} & says
    ]


def _tells(site: Site, use: ast.expr, top: ast.expr, made: frozenset[Scale], says: frozenset[Scale]) -> bool:
    """Whether a count is the one of a product that is told of: the first that can be mended, or the last."""
    counts = [one for one in walk(top) if isinstance(one, ast.expr) and _counted(site, one) is not None]
    counts = [one for one in counts if site.file.parent(one) not in counts or one is use]
    counts.sort(key=lambda one: (one.lineno, one.col_offset))
    for one in counts:
        scale, (_, sign) = _counted(site, one), whole(site.file, one)
        if scale is not None and len(_instead(made, says, scale, sign)) == 1:
            return one is use
    return not counts or counts[-1] is use


def _counted(site: Site, node: ast.expr) -> Scale | None:
    return count(site.program, site.file, node) if isinstance(node, ast.Call | ast.Name | ast.Attribute) else None


def _is_shared(site: Site, top: ast.expr) -> bool:
    """Whether something else in a product tells processes apart, by its name."""
    return _SHARED.search(site.text(top)) is not None and "process_count()" not in site.text(top)


def _checked(site: Site, use: ast.expr, scale: Scale) -> Contradiction | None:
    """`per_host_batch_size % jax.device_count()`."""
    parent = site.file.parent(use)
    if not isinstance(parent, ast.BinOp) or not isinstance(parent.op, ast.Mod) or parent.right is not use:
        return None
    made = amount(site.program, site.file, parent.left)
    if made is None or made.plain or made.counted or made.scales & {ALL}:
        return None
    if any((a - scale[0], b - scale[1]) in WORDS for a, b in made.scales):
        return None
    whose = " or ".join(WORDS[one] for one in sorted(made.scales) if one in WORDS)
    if not whose:
        return None
    better = "jax.local_device_count" if scale == ALL and PROCESS in made.scales else ""
    return Contradiction(
        use,
        _counts(scale),
        f"`{site.shown(parent.left)}` is {whose}, and is to be a multiple of {_counts(scale)}.",
        "checked",
        f"`{site.shown(parent.left)}` is {whose}",
        better,
    )


def _counts(scale: Scale) -> str:
    return {
        ALL: "the devices of all processes",
        PROCESS: "the devices of one process",
        PROCESSES: "the processes",
    }.get(scale, "a count")
