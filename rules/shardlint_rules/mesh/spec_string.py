"""SL306."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from shardlint.model.values import Constant, Items, Value, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Fix, Harm, Rule, Safety
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint_rules.mesh.two_batch_axes import rows_apart

# Two or more axis names run together in one string.
_SEVERAL = regex(r"\s*[A-Za-z_]\w*(\s*[,\s]\s*[A-Za-z_]\w*)+\s*,?\s*")


class SpecString(Rule):
    """An entry of a `PartitionSpec` that does not say what it seems to.

    ## What it does
    Reports entries of a literal spec that are an empty string, several axes in one string, a set, or a
    tuple or list with `None` inside; and a spec of a batch that begins with two axes which split rows: `batch =
    P("data", "fsdp")`. With `--certainty possible` also a list as the only entry: `P(["data", "model"])`.

    ## Why it hurts
    An empty string is taken for `None` since jax 0.5.3: the dimension is replicated and nothing is said.
    Two axes in one string are looked up as one axis, which no mesh has. A set raises `TypeError`. `None`
    inside a tuple is looked up as an axis. A list is one entry, so both axes split the first dimension. Of two entries
    the second splits the second dimension: rows are shared by all devices of that axis, and each gets a part of every
    sequence.

    ## Fix safety
    Safe for an empty string, which becomes the `None` it is taken for (up to jax 0.4.38 it raised), and
    for a list or tuple with `None` inside that is the only entry: it becomes the entries of the spec.
    Several axes in one string are written as a tuple where the spec has other entries (unsafe: it takes
    the string for one dimension); alone, the string may mean either of the two forms above, and is left
    to you.

    ## Evidence
    Run on jax 0.4.38 to 0.12.
    """

    code = "SL306"
    name = "spec-string"
    harm = Harm.SILENT
    likely = ("rows-apart",)
    assumes = True
    triggers = (Calls("jax.sharding.PartitionSpec"),)
    forms = ("call",)
    fixes = "both"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each entry that is wrong."""
        for node in site.call.args:
            if isinstance(node, ast.Starred):
                continue
            found = options(site.value(node))
            if len(found) == 1:
                yield from self._entry(site, node, found[0])
        apart = rows_apart(site) if site.wants("rows-apart") else None
        if apart is not None:
            yield self._apart(site, *apart)

    def _entry(self, site: Site, node: ast.expr, value: Value) -> Iterator[Finding]:
        match value:
            case Constant(value=""):
                yield self._empty(site, node)
            case Constant(value=str() as text) if _SEVERAL.fullmatch(text):
                yield self._several(site, node, text)
            case Items(kind="set"):
                yield self._set(site, node)
            case Items(kind="tuple" | "list", items=items, open=False) if Constant(None) in items:
                yield self._holds_none(site, node)
            case Items(kind="list", items=items) if (
                isinstance(node, ast.List) and len(items) > 1 and _alone(site)
            ):
                yield self._list(site, node)

    def _empty(self, site: Site, node: ast.expr) -> Finding:
        written = isinstance(node, ast.Constant)
        fix = site.fix(Safety.SAFE, "write None", [site.replace(node, "None")]) if written else None
        if site.allows("jax", ">=0.5.3"):
            message = f"On {site.release('jax')} this dimension is not sharded, and nothing says so."
            return site.finding(node, message, label="an empty string is taken for None", fix=fix)
        message = f"On {site.release('jax')} this raises ValueError when a sharding is made of it."
        return site.finding(node, message, label="an empty string is not an axis", fix=fix, harm=Harm.CRASH)

    def _apart(self, site: Site, one: str, two: str) -> Finding:
        return site.finding(
            site.call.args[1],
            f'Rows are split over "{one}" alone: all devices of "{two}" get the same ones, and a part of each.',
            label="this splits the second dimension",
            help=f'write {site.text(site.call.func)}(("{one}", "{two}")) if both are to split the rows',
            certainty=Certainty.POSSIBLE,
            form="rows-apart",
            why=f'"{one}" and "{two}" both split the rows of a batch as a rule',
        )

    def _several(self, site: Site, node: ast.expr, text: str) -> Finding:
        axes = [f'"{axis}"' for axis in re.findall(r"\w+", text)]
        fix: Fix | None = None
        joined = ", ".join(axes)
        if not _alone(site) and isinstance(node, ast.Constant):
            why = "it says that all of them split this one dimension"
            fix = site.fix(Safety.UNSAFE, f"write ({joined})", [site.replace(node, f"({joined})")], why)
        callee = site.text(site.call.func)
        return site.finding(
            node,
            f"On {site.release('jax')} this raises ValueError when a sharding is made of it: "
            f'no mesh has an axis "{text}".',
            label="one string is one axis",
            help=f"write {callee}({joined}) for one axis a dimension, or {callee}(({joined})) for all on one",
            fix=fix,
            harm=Harm.CRASH,
        )

    def _set(self, site: Site, node: ast.expr) -> Finding:
        when = "here" if site.allows("jax", ">=0.5.3") else "when a sharding is made of it"
        return site.finding(
            node,
            f"On {site.release('jax')} this raises TypeError {when}.",
            label="a set has no order and no hash",
            help="write a tuple: its order decides which axis is the outer one",
            harm=Harm.CRASH,
        )

    def _holds_none(self, site: Site, node: ast.expr) -> Finding:
        fix: Fix | None = None
        if _alone(site) and isinstance(node, ast.Tuple | ast.List):
            spread = ", ".join(site.text(element) for element in node.elts)
            whole = f"{site.text(site.call.func)}({spread})"
            fix = site.fix(Safety.SAFE, f"write {whole}", [site.replace(node, spread)])
        return site.finding(
            node,
            f"On {site.release('jax')} this raises ValueError when a sharding is made of it: an entry lists the "
            "axes that split one dimension, and None is looked up as one of them.",
            label="None inside one entry",
            help="give each dimension its own entry",
            fix=fix,
            harm=Harm.CRASH,
        )

    def _list(self, site: Site, node: ast.expr) -> Finding:
        callee, inner = site.text(site.call.func), site.text(node)
        spread = inner[1:-1] if isinstance(node, ast.List) else f"*{inner}"
        return site.finding(
            node,
            "All of these axes split the first dimension; the other dimensions are replicated.",
            label="a list is one entry",
            help=f"write {callee}({spread}) for one axis a dimension, or a tuple if it is meant so",
            certainty=Certainty.POSSIBLE,
        )


def _alone(site: Site) -> bool:
    """Whether the spec has a single entry, so that it may have been meant as the whole spec."""
    return len(site.call.args) == 1 and not site.call.keywords
