"""SL321."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from shardlint.config.certainty import Certainty
from shardlint.model.reach import lookup
from shardlint.model.values import Constant, Function, Items, Place, Table, Value, options
from shardlint.rules_api.rule import Calls, Finding, Harm, Lines, Rule
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax.nodes import walk

_SHAPES = {"jax.make_mesh": "axis_shapes", "jax.sharding.AbstractMesh": "axis_sizes"}
_MAKING = ("reshape", "create_device_mesh", "create_hybrid_device_mesh")
_PARTS = regex(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
# What people write for one axis. A part that is none of these stands for itself.
_SAME = {
    **dict.fromkeys(("dp", "ddp", "data", "batch"), "data"),
    **dict.fromkeys(("mp", "model"), "model"),
    **dict.fromkeys(("tp", "tensor", "mdl"), "tensor"),
    **dict.fromkeys(("pp", "pipe", "pipeline", "stage", "stages"), "stage"),
    **dict.fromkeys(("sp", "cp", "seq", "sequence", "context"), "sequence"),
    **dict.fromkeys(("ep", "expert", "experts"), "expert"),
    **dict.fromkeys(("row", "rows", "x"), "row"),
    **dict.fromkeys(("col", "cols", "column", "columns", "y"), "column"),
}
# They say nothing about which axis it is.
_EMPTY = frozenset(
    "n num number of parallel parallelism size sizes axis dim dims degree ways way devices device shards shard mesh "
    "ici dcn local global total count per name self cfg config args flags".split()
)


class SwappedSizes(Rule):
    """The sizes of a mesh and the names of its axes stand in different orders.

    ## What it does
    Reports `jax.make_mesh((model_parallel, data_parallel), ("data", "model"))` and the same with `reshape` or
    `create_device_mesh`, where two sizes are called as each other's axis; and a call of a function of the project whose
    name says mesh that gives two arguments by position in the place of each other's parameter.

    ## Why it hurts
    Nothing is raised while both products are the number of devices: the batch is split into as many parts as the
    weights should be, and the weights into as many as the batch.

    ## Evidence
    Read off names alone, so it is quiet where one of the two could stand for both. The proof runs it: the shards have
    the other shape.
    """

    code = "SL321"
    name = "swapped-mesh-sizes"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("order",)
    triggers = (
        Calls("jax.make_mesh", "jax.sharding.Mesh", "jax.sharding.AbstractMesh"),
        Lines(
            r"[^#\n]*[mM]esh(?!grid)\w*\([^\n]*,",
            r"[^#\n]*[mM]esh(?!grid)\w*\($",
            saying=("mesh", "Mesh"),
        ),
    )
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for two sizes in each other's place."""
        if site.form == "call":
            yield from self._of_mesh(site)
        elif site.form == "line":
            yield from self._of_calls(site)

    def _of_mesh(self, site: Site) -> Iterator[Finding]:
        names = site.argument("axis_names")
        found = options(site.value(names)) if names is not None else ()
        if names is None or len(found) != 1 or not isinstance(found[0], Items) or found[0].open:
            return
        axes = [str(one.value) if isinstance(one, Constant) else "" for one in found[0].items]
        sizes = _sizes(site, site.argument(_SHAPES.get(site.api, "devices")))
        pair = _swapped(sizes, axes) if len(sizes) == len(axes) else None
        if pair is None:
            return
        first, second = pair
        yield self._finding(
            site,
            names,
            f'`{sizes[first]}` is the size of "{axes[first]}"',
            f'"{axes[first]}" gets `{sizes[first]}` devices and "{axes[second]}" gets `{sizes[second]}`.',
            "write sizes and names in the same order",
            "order",
        )

    def _of_calls(self, site: Site) -> Iterator[Finding]:
        for call in walk(_own(site.syntax)):
            if not isinstance(call, ast.Call) or len(call.args) < 2 or "mesh" not in _last(call.func).lower():
                continue
            for function in options(site.value(call.func)):
                given = [_last(argument) for argument in call.args]
                parameters = _parameters(function)
                pair = _swapped(given, parameters[: len(given)])
                if pair is None:
                    continue
                first, second = pair
                yield self._finding(
                    site,
                    call.args[first],
                    f"`{given[first]}` is given as `{parameters[first]}`",
                    f"`{_last(call.func)}` takes {', '.join(f'`{one}`' for one in parameters)}: `{given[first]}` and "
                    f"`{given[second]}` stand in each other's place.",
                    "give them by keyword",
                    "order",
                )
                break

    def _finding(self, site: Site, node: ast.AST, label: str, message: str, help: str, form: str) -> Finding:
        return site.finding(
            node,
            label,
            f"On {site.release('jax')} nothing is raised where the sizes make up the same number of devices: {message}",
            help=help,
            certainty=Certainty.POSSIBLE,
            form=form,
            why="by their names",
        )


def _own(node: ast.AST) -> ast.AST:
    """A statement without the statements in it."""
    match node:
        case ast.If(test=part) | ast.While(test=part) | ast.For(iter=part):
            return part
        case ast.With(items=items):
            return ast.Tuple([item.context_expr for item in items], ast.Load())
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Try() | ast.Match():
            return ast.Pass()
    return node


def _sizes(site: Site, node: ast.expr | None, depth: int = 0) -> list[str]:
    """What the sizes of a mesh are called, in order; nothing where they are not written out."""
    if node is None or depth > 3:
        return []
    match node:
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return [_last(element) for element in elements]
        case ast.Name(id=name):
            bindings, _ = lookup(site.file, node, name)
            if len(bindings) == 1 and bindings[0].kind == "assign" and bindings[0].index is None:
                return _sizes(site, bindings[0].value, depth + 1)
        case ast.Call(func=called, args=args, keywords=keywords) if _last(called) in _MAKING:
            if _last(called) == "reshape" and len(args) > 1 and isinstance(called, ast.Attribute):
                whole = args[1:] if _last(called.value) in ("np", "numpy", "jnp") else args
                return _sizes(site, whole[0], depth + 1) if len(whole) == 1 else [_last(one) for one in whole]
            shape = (
                args[0] if args else next((one.value for one in keywords if "shape" in str(one.arg)), None)
            )
            return _sizes(site, shape, depth + 1)
        case ast.Call(func=called, args=[inner, *_]) if _last(called) in (
            "array",
            "asarray",
            "tuple",
            "list",
        ):
            return _sizes(site, inner, depth + 1)
        case ast.Call(func=ast.Attribute(attr="values", value=table), args=[]):
            found = options(site.program.evaluator.value(Place(site.file, table)))
            if len(found) == 1 and isinstance(found[0], Table) and not found[0].open:
                return [str(key) for key, _ in found[0].entries]
    return []


def _parameters(value: Value) -> list[str]:
    """The parameters that a function of the project takes by position."""
    if not isinstance(value, Function) or isinstance(value.node, ast.Lambda):
        return []
    names = [one.arg for one in (*value.node.args.posonlyargs, *value.node.args.args)]
    return names[1:] if names[:1] in (["self"], ["cls"]) else names


def _swapped(given: Sequence[str], wanted: Sequence[str]) -> tuple[int, int] | None:
    """The first two that stand in each other's place."""
    have, want = [_tokens(one) for one in given], [_tokens(one) for one in wanted]
    for first in range(min(len(have), len(want))):
        for second in range(first + 1, min(len(have), len(want))):
            if (
                _meant(have[first], want[second], want)
                and _meant(have[second], want[first], want)
                and not have[first] & want[first]
                and not have[second] & want[second]
            ):
                return first, second
    return None


def _meant(one: frozenset[str], other: frozenset[str], among: Sequence[frozenset[str]]) -> bool:
    """Whether a name has a part of another one, and of no third."""
    return bool(one & other) and sum(bool(one & each) for each in among) == 1


def _tokens(name: str) -> frozenset[str]:
    parts = {part.lower() for part in _PARTS.findall(name)} - _EMPTY
    return frozenset(_SAME.get(part, part) for part in parts)


def _last(node: ast.AST) -> str:
    """What an expression is called: `args.data_parallel`, `sizes["data"]`, `int(dp)`."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(slice=ast.Constant(value=str() as name)):
            return name
        case ast.Call(func=ast.Name(id="int"), args=[inner]):
            return _last(inner)
    return ""
