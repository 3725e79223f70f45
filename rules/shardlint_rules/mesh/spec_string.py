"""SL306."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from shardlint.model.values import Constant, Items, Value, options
from shardlint.rules_api.rule import Calls, Finding, Fix, Harm, Rule, Safety, detector
from shardlint.rules_api.site import Site
from shardlint.source.patterns import compile_lazily

# Two or more axis names run together in one string.
_SEVERAL = compile_lazily(r"\s*[A-Za-z_]\w*(\s*[,\s]\s*[A-Za-z_]\w*)+\s*,?\s*")


class SpecString(Rule):
    """An entry of a `PartitionSpec` is an empty string, several axes in one string, a set, or contains `None`.

    An empty string replicates the dimension, and nothing is raised. Each of the other entries raises.

    ## Reports
    - proven: an empty string. Since jax 0.5.3 it means `None`. Before, a sharding with this spec raises ValueError.
    - proven: several axes in one string, such as `P("data, model")`. A sharding with this spec raises ValueError: jax
      looks for one axis with this name.
    - proven: a set as an entry. It raises TypeError.
    - proven: `None` inside a tuple or list. A sharding with this spec raises ValueError: jax looks for a mesh axis
      `None`.

    ## Fix
    - An empty string becomes `None`.
    - A tuple or list that contains `None` and is the only entry becomes the entries of the spec: `P(["data", None])`
      becomes `P("data", None)`.
    - Several axes in one string become a tuple (unsafe). If the string is the only entry there is no fix: each axis
      may be meant for another dimension.
    """

    code = "SL306"
    name = "spec-string"
    harm = Harm.SILENT
    assumes = True
    triggers = (Calls("jax.sharding.PartitionSpec"),)
    fixes = "both"

    @detector("call")
    def find_entries(self, site: Site) -> Iterator[Finding]:
        """Each entry that is wrong."""
        for node in site.call.args:
            if isinstance(node, ast.Starred):
                continue
            found = options(site.value(node))
            if len(found) == 1:
                yield from self._check_entry(site, node, found[0])

    def _check_entry(self, site: Site, node: ast.expr, value: Value) -> Iterator[Finding]:
        match value:
            case Constant(value=""):
                yield self._report_empty_string(site, node)
            case Constant(value=str() as text) if _SEVERAL.fullmatch(text):
                yield self._report_several_names(site, node, text)
            case Items(kind="set"):
                yield self._report_set_entry(site, node)
            case Items(kind="tuple" | "list", items=items, open=False) if Constant(None) in items:
                yield self._holds_none(site, node)

    def _report_empty_string(self, site: Site, node: ast.expr) -> Finding:
        written = isinstance(node, ast.Constant)
        fix = site.fix(Safety.SAFE, "write None", [site.replace(node, "None")]) if written else None
        if site.allows("jax", ">=0.5.3"):
            return site.finding(
                node,
                f"On {site.release('jax')} this dimension is replicated: an empty string in a spec means None.",
                help="write the axis name, or None",
                fix=fix,
            )
        return site.finding(
            node,
            f"On {site.release('jax')} a sharding with this spec raises ValueError: an empty string is not an axis.",
            help="write the axis name, or None",
            fix=fix,
            harm=Harm.CRASH,
        )

    def _report_several_names(self, site: Site, node: ast.expr, text: str) -> Finding:
        axes = [f'"{axis}"' for axis in re.findall(r"\w+", text)]
        fix: Fix | None = None
        joined = ", ".join(axes)
        if not _has_single_entry(site) and isinstance(node, ast.Constant):
            why = "the tuple shards this one dimension over all of the axes"
            fix = site.fix(Safety.UNSAFE, f"write ({joined})", [site.replace(node, f"({joined})")], why)
        callee = site.text(site.call.func)
        return site.finding(
            node,
            f'A sharding with this spec raises ValueError: "{text}" is one axis name, and no mesh has it.',
            label="one string is one axis",
            help=f"write `{callee}({joined})` for one axis per dimension, or `{callee}(({joined}))` to shard one "
            "dimension over all these axes",
            fix=fix,
            harm=Harm.CRASH,
        )

    def _report_set_entry(self, site: Site, node: ast.expr) -> Finding:
        return site.finding(
            node,
            f"On {site.release('jax')} a set as a spec entry raises TypeError.",
            label="a set",
            help="write a tuple: its first axis is the major one",
            harm=Harm.CRASH,
        )

    def _holds_none(self, site: Site, node: ast.expr) -> Finding:
        fix: Fix | None = None
        if _has_single_entry(site) and isinstance(node, ast.Tuple | ast.List):
            spread = ", ".join(site.text(element) for element in node.elts)
            whole = f"{site.text(site.call.func)}({spread})"
            fix = site.fix(Safety.SAFE, f"write {whole}", [site.replace(node, spread)])
        return site.finding(
            node,
            "A sharding with this spec raises ValueError: None inside a tuple is looked up as a mesh axis.",
            label="None inside one entry",
            help="write one entry per dimension, without the inner tuple or list",
            why="a tuple or list is one entry, the axes of one dimension",
            fix=fix,
            harm=Harm.CRASH,
        )


def _has_single_entry(site: Site) -> bool:
    """Return whether the spec has a single entry, so that it may have been intended as the whole spec."""
    return len(site.call.args) == 1 and not site.call.keywords
