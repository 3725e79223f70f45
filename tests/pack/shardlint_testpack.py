"""A rule pack as anyone could write one, with just enough rules to see the engine work."""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.rules_api.rule import Calls, Certainty, Edit, Finding, Harm, Rule, Safety, Uses
from shardlint.rules_api.site import Site

RULES = {
    "XT101": "shardlint_testpack:Told",
    "XT102": "shardlint_testpack:Moved",
    "XT103": "shardlint_testpack:Changed",
    "XT104": "shardlint_testpack:Perhaps",
    "XT301": "shardlint_testpack:Judged",
    "XT105": "shardlint_testpack:Quiet",
    "XT106": "shardlint_testpack:Old",
    "XT107": "shardlint_testpack:Named",
    "XT108": "shardlint_testpack:Leaving",
    "XT201": "shardlint_testpack:Nested",
    "XT202": "shardlint_testpack:Ruinous",
    "XT203": "shardlint_testpack:Foreign",
    "XT204": "shardlint_testpack:Forth",
    "XT205": "shardlint_testpack:Back",
    "XT206": "shardlint_testpack:Faulty",
    "XT207": "shardlint_testpack:Rewritten",
    "XT208": "shardlint_testpack:Waiting",
    "XT209": "shardlint_testpack:Idle",
    "XT210": "shardlint_testpack:Bringing",
    "XT401": "shardlint_testpack:Losing",
    "XT402": "shardlint_testpack:Gathering",
    "XT403": "shardlint_testpack:Keeping",
}


class _Call(Rule):
    """Reports every call that triggers it."""

    def check(self, site: Site) -> Iterator[Finding]:
        if not site.expected_to_fail and not site.guarded:
            yield site.finding(
                site.call, f"On {site.release('jax')} this is told.", label="here", fix=self.fix_for(site)
            )

    def fix_for(self, site: Site):
        return None


class Told(_Call):
    """No fix."""

    code, name, harm = "XT101", "device-put-told", Harm.SILENT
    triggers = (Calls("jax.device_put"),)


class Moved(_Call):
    """A safe fix that needs an import and leaves one unused."""

    code, name, harm, fixes = "XT102", "asarray-moved", Harm.REMOVED, "safe"
    triggers = (Calls("numpy.asarray", "numpy.array"),)

    def fix_for(self, site: Site):
        text, imports = site.spell("jax.numpy.asarray")
        first = site.text(site.call.func).partition(".")[0]
        return site.fix(
            Safety.SAFE, f"write {text}", [site.replace(site.call.func, text), *imports], drops=[first]
        )


class Changed(_Call):
    """An unsafe fix."""

    code, name, harm, fixes = "XT103", "zeros-changed", Harm.COST, "unsafe"
    triggers = (Calls("jax.numpy.zeros"),)

    def fix_for(self, site: Site):
        text, imports = site.spell("jax.numpy.ones")
        edits = [site.replace(site.call.func, text), *imports]
        return site.fix(Safety.UNSAFE, f"write {text}", edits, "the numbers change")


class Perhaps(_Call):
    """Possible only."""

    code, name, harm, certainty = "XT104", "sum-perhaps", Harm.COST, Certainty.POSSIBLE
    triggers = (Calls("jax.numpy.sum"),)


class Judged(Rule):
    """One form that the ledger found right, one that it has not, and one that is proven."""

    code, name, harm, likely = "XT301", "prod-judged", Harm.COST, ("two",)
    triggers = (Calls("jax.numpy.prod"),)

    def check(self, site: Site) -> Iterator[Finding]:
        count = len(site.call.args)
        form = {1: "one", 2: "two"}.get(count, "")
        certainty = Certainty.POSSIBLE if form else Certainty.PROVEN
        if not form or site.wants(form):
            yield site.finding(site.call, "x", certainty=certainty, form=form, why=f"{count} arguments")


class Quiet(_Call):
    """Off unless selected."""

    code, name, harm, default = "XT105", "max-quiet", Harm.COST, False
    triggers = (Calls("jax.numpy.max"),)


class Old(_Call):
    """Holds for old releases only."""

    code, name, harm, releases = "XT106", "cos-old", Harm.CRASH, {"jax": "<0.5"}
    triggers = (Calls("numpy.cos"),)


class Leaving(_Call):
    """Goes with the next release."""

    code, name, harm = "XT108", "sin-leaving", Harm.COST
    deprecated = "write XT101, which finds it too"
    triggers = (Calls("jax.numpy.sin"),)


class Named(Rule):
    """Triggers on a name, wherever it stands."""

    code, name, harm = "XT107", "tree-map-named", Harm.REMOVED
    triggers = (Uses("jax.tree_map", "jax.experimental.pjit.*"),)

    def check(self, site: Site) -> Iterator[Finding]:
        yield site.finding(site.syntax, f"{site.written} is gone.", label=site.form)


class Nested(_Call):
    """A fix that takes the whole call, so that nested ones overlap."""

    code, name, harm, fixes = "XT201", "square-nested", Harm.COST, "safe"
    triggers = (Calls("numpy.square"),)

    def fix_for(self, site: Site):
        return site.fix(
            Safety.SAFE, "write a power", [site.replace(site.call, f"({site.text(site.call.args[0])}) ** 2")]
        )


class Ruinous(_Call):
    """A fix that breaks the file."""

    code, name, harm, fixes = "XT202", "sin-ruinous", Harm.COST, "safe"
    triggers = (Calls("numpy.sin"),)

    def fix_for(self, site: Site):
        return site.fix(Safety.SAFE, "ruin", [site.replace(site.call, "((")])


class Foreign(_Call):
    """A fix in letters that few encodings have."""

    code, name, harm, fixes = "XT203", "tan-foreign", Harm.COST, "safe"
    triggers = (Calls("numpy.tan"),)

    def fix_for(self, site: Site):
        return site.fix(Safety.SAFE, "translate", [site.replace(site.call, "'→'")])


class Forth(_Call):
    """Undone by the next one."""

    code, name, harm, fixes = "XT204", "floor-forth", Harm.COST, "safe"
    triggers = (Calls("numpy.floor"),)
    other = "ceil"

    def fix_for(self, site: Site):
        start, end = site.file.character_span(site.call.func)
        return site.fix(Safety.SAFE, "turn", [Edit(start, end, f"np.{self.other}")])


class Back(Forth):
    """Undone by the one before."""

    code, name = "XT205", "ceil-back"
    triggers = (Calls("numpy.ceil"),)
    other = "floor"


class Faulty(Rule):
    """Has a bug."""

    code, name, harm = "XT206", "exp-faulty", Harm.COST
    triggers = (Calls("numpy.exp"),)

    def check(self, site: Site) -> Iterator[Finding]:
        raise KeyError("a bug in a rule")
        yield


class Rewritten(_Call):
    """A fix that rewrites with libcst."""

    code, name, harm, fixes = "XT207", "log-rewritten", Harm.COST, "safe"
    triggers = (Calls("numpy.log"),)

    def check(self, site: Site) -> Iterator[Finding]:
        if site.keyword("out") is not None:
            yield from super().check(site)

    def fix_for(self, site: Site):
        from shardlint.rules_api import cst as islands

        call = islands.without_keywords(site.node, {"out"})
        return site.fix(Safety.SAFE, "leave out `out`", [site.replace(site.call, call)])


class Waiting(_Call):
    """A fix that is made once no file of the project says `hold_on`."""

    code, name, harm, fixes = "XT208", "cbrt-waits", Harm.COST, "safe"
    triggers = (Calls("numpy.cbrt"),)

    def fix_for(self, site: Site):
        if site.is_named_anywhere("hold_on"):
            return None
        return site.fix(Safety.SAFE, "write abs", [site.replace(site.call.func, "abs")], drops=["np"])


class Idle(_Call):
    """A fix that leaves its finding where it is."""

    code, name, harm, fixes = "XT209", "sinh-idle", Harm.COST, "safe"
    triggers = (Calls("numpy.sinh"),)

    def fix_for(self, site: Site):
        end = site.file.character_span(site.call.func)[1]
        return site.fix(Safety.SAFE, "add nothing", [Edit(end, end, " ")])


class Bringing(_Call):
    """A fix that brings another finding: for `np.cosh(1)` one that has no fix, for `np.cosh(2)` none."""

    code, name, harm, fixes = "XT210", "cosh-bringing", Harm.COST, "safe"
    triggers = (Calls("numpy.cosh"),)

    def fix_for(self, site: Site):
        given = site.text(site.call.args[0])
        new = {"1": "jax.device_put(1)", "jax": "jax.device_put"}.get(given, "2")
        return site.fix(Safety.SAFE, f"write {new}", [site.replace(site.call, new)])


class Losing(_Call):
    """A fix that loses a sharding."""

    code, name, harm, fixes, default = "XT401", "constraint-lost", Harm.COST, "safe", False
    triggers = (Calls("jax.lax.with_sharding_constraint"),)

    def fix_for(self, site: Site):
        given = site.text(site.call.args[0])
        return site.fix(Safety.SAFE, "leave it out", [site.replace(site.call, given)])


class Gathering(_Call):
    """A fix that gathers an array and leaves the result as it was."""

    code, name, harm, fixes, default = "XT402", "sin-gathers", Harm.COST, "safe", False
    triggers = (Calls("jax.numpy.sin"),)

    def fix_for(self, site: Site):
        given = site.text(site.call.args[0])
        return site.fix(Safety.SAFE, "gather", [site.replace(site.call, f"jax.lax.sin(whole({given}))")])


class Keeping(_Call):
    """A fix that drops a donation."""

    code, name, harm, fixes, default = "XT403", "donation-dropped", Harm.COST, "safe", False
    triggers = (Calls("jax.jit"),)

    def check(self, site: Site) -> Iterator[Finding]:
        if site.keyword("donate_argnums") is not None:
            yield from super().check(site)

    def fix_for(self, site: Site):
        return site.fix(
            Safety.SAFE, "keep it", [site.replace(site.call, f"jax.jit({site.text(site.call.args[0])})")]
        )
