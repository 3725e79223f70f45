"""SL328."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from shardlint.model.mesh.meshes import spec_of
from shardlint.model.values import Items, options
from shardlint.rules_api.rule import Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint_rules.mesh.constraining import CONSTRAINING, constraining

# `q_TNH`, `x_BTD`: the letters of the dimensions end the name.
_ARRAY = regex(r"_([A-Z]{2,5})$")
# `activation_td`, `query_tnh_sharding`: so do those of a spec. Other letters say something else.
_SPEC = regex(r"_([abdefghklmnqrstvx]{2,5})(?:_(?:sharding|p?spec|axes|named_sharding))?$")
_WORDS = frozenset(
    "as at fn axes data mesh heads head batch grads rest ends send dest ref test best extra".split()
)
_PLACING = regex(r"shard|constrain|device_put")


class SpecForOtherDimensions(Rule):
    """An array is constrained by a spec that was written for another array.

    ## What it does
    Reads the dimensions off names, where a project ends the names of arrays and specs in their letters (`q_TNH`,
    `activation_td`). Reports a constraint or placement of an array with a spec for another number of dimensions, where
    an array with just the spec's dimensions is in the same function and is not constrained; and a spec that has more
    entries than the name of its array has letters.

    ## Why it hurts
    A spec that is shorter than the array is accepted, and splits other dimensions than were meant; the array it was
    written for keeps whatever sharding it has. A longer one raises `ValueError`.

    ## Evidence
    The proof shows the array that was meant unsplit. Left alone: names that end in other words, and specs of another
    name whose array is constrained too.
    """

    code = "SL328"
    name = "spec-for-other-dimensions"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("named",)
    triggers = (CONSTRAINING,)
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """At most one finding for a statement."""
        found = constraining(site)
        if found is None:
            return
        call, array, sharding = found
        letters = _letters(_last(array), _ARRAY)
        if not letters:
            return
        spec = _last(sharding)
        wanted = _letters(spec, _SPEC)
        if wanted and wanted not in _WORDS and len(wanted) != len(letters):
            meant = self._meant(site, wanted.upper(), call)
            if meant is not None:
                yield self._named(site, call, array, spec, meant)
                return
        entries = _entries(site, sharding)
        if entries is not None and entries > len(letters):
            yield self._longer(site, sharding, array, entries, len(letters))

    def _named(self, site: Site, call: ast.Call, array: ast.expr, spec: str, meant: str) -> Finding:
        name = site.text(array)
        return site.finding(
            call,
            f"`{spec}` is for an array of other dimensions than `{name}`",
            f"`{name}` gets a spec whose entries were written for other dimensions, and `{meant}` gets none.",
            help=f"constrain `{meant}` with `{spec}`",
            certainty=Certainty.POSSIBLE,
            form="named",
            why=f"by their letters; `{meant}` of this function has those of the spec, and is constrained nowhere",
        )

    def _longer(self, site: Site, sharding: ast.expr, array: ast.expr, entries: int, rank: int) -> Finding:
        name = site.text(array)
        return site.finding(
            sharding,
            f"{entries} entries for an array named for {rank} dimensions",
            f"On {site.release('jax')} this raises ValueError if `{name}` has {rank} dimensions.",
            help="write at most one entry a dimension",
            harm=Harm.CRASH,
            certainty=Certainty.POSSIBLE,
            form="longer",
            why=f"the letters of `{name}` stand for its dimensions",
        )

    def _meant(self, site: Site, letters: str, call: ast.Call) -> str | None:
        """A name of the function that ends in these letters, and that nothing constrains."""
        scope = site.scope.function()
        if scope is None:
            return None
        placed, made = set(), {}
        for other in site.file.walked(scope).calls:
            if _PLACING.search(site.text(other.func)):
                targets = site.file.parent(other)
                named = targets.targets if isinstance(targets, ast.Assign) else []
                placed |= {_last(one) for one in (*other.args[:1], *named)} if other is not call else set()
        for one, found in site.file.bound(scope).bindings.items():
            if _letters(one, _ARRAY) == letters and one not in placed:
                lines = [abs(b.line - call.lineno) for b in found if b.kind == "assign"]
                made.update({one: min(lines)} if lines else {})
        return min(made, key=lambda one: made[one]) if made else None


def _entries(site: Site, node: ast.expr) -> int | None:
    """How many entries a spec has, where the text tells them all."""
    counts = set()
    for option in options(site.value(node)):
        parts = site.sharding_parts(option)
        spec = spec_of(parts[1] if parts is not None else option, site.program.evaluator)
        if spec is not None and not spec.open:
            counts.add(len(spec.entries))
        elif isinstance(option, Items) and option.kind == "tuple" and not option.open:
            counts.add(len(option.items))
        else:
            return None
    return min(counts) if counts else None


def _letters(name: str, pattern: re.Pattern[str]) -> str:
    found = pattern.search(name)
    return found[1] if found is not None else ""


def _last(node: ast.expr) -> str:
    """What an array or a spec is called; of `NamedSharding(mesh, P(*self.query_tnh))` what stands innermost."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(args=[*_, ast.Starred(value=inner)]) | ast.Call(args=[_, inner]):
            return _last(inner)
    return ""
