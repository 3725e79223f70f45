"""SL334."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from shardlint.model.reach import lookup
from shardlint.rules_api.rule import Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.syntax.nodes import walk
from shardlint_rules.mesh.constraining import CONSTRAINING, constraining

_PREFIXES = ("activation_", "act_")
_AXES = ("kernel_axes", "kernel_sharding_axes", "kernel_logical_axes", "shard_axes")


class ConstraintAfterKernel(Rule):
    """The logical names of an activation do not fit the kernel it comes from or goes into.

    ## What it does
    Reads the axes of dense layers where they are written out (`kernel_axes=("mlp", "embed")`). Reports a constraint by
    logical names on what goes into such a layer whose last name is that of the layer's output, and on what comes out
    of one whose last name is that of its input.

    ## Why it hurts
    The activation is split as another one: the hidden layer of an MLP, the widest of all, as the model dimension,
    which mostly stays whole. Every device then holds and computes all of it. Nothing is raised.

    ## Evidence
    The proof shows the hidden layer whole. Left alone: kernels of more than two axes, with the same name twice, and
    names that the layer does not have at all.
    """

    code = "SL334"
    name = "activation-named-for-other-side"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("side",)
    triggers = (CONSTRAINING,)
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """At most one finding for a constraint."""
        found = constraining(site)
        names = _names(found[2]) if found is not None else ()
        array = found[1] if found is not None else None
        if found is None or len(names) < 2 or not isinstance(array, ast.Name):
            return
        given = found[2]
        last = _plain(names[-1])
        into = self._into(site)
        if into and last == into[1] != into[0]:
            label = f'"{names[-1]}" is what the next layer gives; it takes "{into[0]}"'
            yield self._finding(site, given, label, into, names, into[0])
            return
        before, _ = lookup(site.file, array, array.id)
        made = before[0].value if len(before) == 1 and before[0].kind == "assign" else None
        out = _kernel(site, made) if isinstance(made, ast.Call) else ()
        if out and last == out[0] != out[1]:
            label = f'"{names[-1]}" is what the layer takes; it gives "{out[1]}"'
            yield self._finding(site, given, label, out, names, out[1])

    def _finding(
        self, site: Site, node: ast.expr, label: str, axes: Sequence[str], names: Sequence[str], right: str
    ) -> Finding:
        prefix = next((one for one in _PREFIXES if names[-1].startswith(one)), "")
        return site.finding(
            node,
            label,
            "The activation is split as that of the other side of the layer, and nothing is raised.",
            help=f'write "{prefix}{right}"',
            certainty=Certainty.POSSIBLE,
            form="side",
            why=f"the kernel of the layer has the axes {axes[0]}, {axes[1]}",
        )

    def _into(self, site: Site) -> tuple[str, ...]:
        """The kernel of the layer that a statement's result is given to first."""
        scope = site.scope.function()
        target = site.syntax.targets[0] if isinstance(site.syntax, ast.Assign) else None
        if scope is None or not isinstance(target, ast.Name):
            return ()
        for call in sorted(site.file.walked(scope).calls, key=lambda one: (one.lineno, one.col_offset)):
            first = call.args[0] if call.args else None
            if not isinstance(first, ast.Name) or first.id != target.id or call.lineno <= target.lineno:
                continue
            bindings, _ = lookup(site.file, first, first.id)
            axes = _kernel(site, call) if [one.node for one in bindings] == [target] else ()
            if axes:
                return axes
        return ()


def _names(node: ast.expr) -> tuple[str, ...]:
    parts = node.elts if isinstance(node, ast.Tuple | ast.List) else []
    names = [one.value for one in parts if isinstance(one, ast.Constant)]
    return tuple(one for one in names if isinstance(one, str)) if len(names) == len(parts) else ()


def _plain(name: str) -> str:
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return name


def _kernel(site: Site, call: ast.Call) -> tuple[str, ...]:
    """The two axes of the kernel of the layer that a call applies: made there, or an attribute made in the class."""
    made: ast.expr | None = call.func
    if isinstance(made, ast.Attribute) and isinstance(made.value, ast.Name) and made.value.id == "self":
        made = _attribute(site, made.attr)
    given = made.keywords if isinstance(made, ast.Call) else []
    names = next((_names(one.value) for one in given if one.arg in _AXES), ())
    return names if len(names) == 2 else ()


def _attribute(site: Site, name: str) -> ast.expr | None:
    """What the class around a site gives an attribute, once."""
    owner = next((one for one in site.file.ancestors(site.syntax) if isinstance(one, ast.ClassDef)), None)
    found = [
        one.value
        for one in (walk(owner) if owner is not None else ())
        if isinstance(one, ast.Assign)
        and isinstance(one.targets[0], ast.Attribute)
        and one.targets[0].attr == name
        and isinstance(one.targets[0].value, ast.Name)
    ]
    return found[0] if len(found) == 1 else None
