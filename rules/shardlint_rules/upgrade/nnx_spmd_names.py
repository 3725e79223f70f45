"""SL513."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Certainty, Finding, Fix, Harm, Rule, Safety, Uses, detector
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts


@dataclass(frozen=True)
class _Name:
    """A name, the releases that were seen without it, what to write, and the name that takes its place there."""

    without: str
    advice: str
    instead: str = ""
    came: str = ""
    """The first release that was seen with it, for names that older ones lack."""
    alias: bool = False
    """True if the name still works, with a warning, as an alias of the new one."""


_CONSTRAIN = _Name(">=0.11.2", "write jax.lax.with_sharding_constraint", "jax.lax.with_sharding_constraint")
_EAGER = (
    "write `flax.config.update('flax_always_shard_variable', value)` on flax 0.12.0, "
    "or remove the call: older releases never shard eagerly"
)
_ABSTRACT = "write nnx.get_abstract_model(make, mesh), or nnx.get_named_sharding(state, mesh)"
NAMES = {
    "flax.nnx.with_sharding_constraint": _CONSTRAIN,
    "flax.nnx.spmd.with_sharding_constraint": _CONSTRAIN,
    "flax.nnx.VariableState": _Name(
        ">=0.12.4",
        "write `nnx.Variable`: it takes only the value, and is the class of the leaves of a State",
        "flax.nnx.Variable",
        alias=True,
    ),
    "flax.nnx.sharding_hook": _Name(
        ">=0.10.4",
        "write out_sharding= of the variable, or nnx.get_partition_spec",
    ),
    "flax.nnx.get_var_pspec": _Name(
        ">=0.10.4", "write nnx.spmd.get_var_pspec (from flax 0.11), or nnx.get_partition_spec for a state"
    ),
    "flax.nnx.get_abstract_model": _Name(
        "<=0.10.4", "write nnx.eval_shape(make) and nnx.get_named_sharding(state, mesh)", came="0.11.2"
    ),
    "flax.nnx.logical_axis_rules": _Name(
        "<=0.10.4",
        "add sharding_rules= to the annotation, or write flax.linen.logical_axis_rules",
        came="0.11.2",
    ),
    "flax.nnx.use_eager_sharding": _Name("<=0.12.0", _EAGER, came="0.12.4"),
    "flax.nnx.using_eager_sharding": _Name("<=0.12.0", _EAGER, came="0.12.4"),
    "flax.nnx.abstract_with_sharding": _Name("<=0.12.4", _ABSTRACT, came="0.12.6"),
    "flax.nnx.as_abstract": _Name("<=0.12.6", _ABSTRACT, came="0.12.12"),
}
"""As seen by importing flax 0.10.4, 0.11.2, 0.12.0, 0.12.4, 0.12.6 and 0.12.12."""


class NnxSpmdNames(Rule):
    """A sharding name of `flax.nnx` does not exist in the project's release of flax.

    Reading the name raises AttributeError and importing it ImportError, often only when a model is sharded or restored.
    `nnx.VariableState` is now `nnx.Variable`, which takes no type argument.

    ## Reports
    - proven: a use or import of `nnx.with_sharding_constraint` (removed in flax 0.11), or of a name that no release has
      (`nnx.sharding_hook`, `nnx.get_var_pspec`).
    - proven: a use or import of `nnx.VariableState`, since flax 0.12.4 a deprecated alias that warns.
    - proven: a newer name in a project that pins an older flax exactly, such as `nnx.use_eager_sharding`,
      `nnx.get_abstract_model` or `nnx.as_abstract`.
    - possible: a newer name if flax is not pinned exactly, or any of these names in a type hint that is never
      evaluated.

    ## Fix
    Safe: writes the new name if it takes the same arguments.

    ## Limits
    Not reported: code under `hasattr`, a version check or `try`. Also not reported: a release between two of flax
    0.10.4, 0.11.2, 0.12.0, 0.12.4, 0.12.6 and 0.12.12, if only the later of the two has the name.
    """

    code = "SL513"
    name = "nnx-spmd-names"
    harm = Harm.REMOVED
    releases: ClassVar[Mapping[str, str]] = {"flax": ">=0.10.4"}
    triggers = (Uses(*NAMES),)
    in_version_checks = False
    fixes = "safe"

    @detector("name", "import")
    def report_use(self, site: Site) -> Finding | None:
        """A use of a name that is not there."""
        entry = NAMES.get(site.written)
        node = site.syntax
        if entry is None or not isinstance(node, ast.alias | ast.Attribute):
            return None
        if not site.allows("flax", entry.without) or _is_flax(site) or _is_patched(site):
            return None
        certainty = Certainty.POSSIBLE if _is_unevaluated_annotation(site.file, node) else Certainty.PROVEN
        on = site.release("flax")
        if entry.came:
            source = site.targets.found["flax"].source
            if not site.is_pinned_exactly("flax"):
                certainty = Certainty.POSSIBLE
            on = f"{on} ({source})"
        message = _explain_error(site, node, entry, on)
        if entry.alias and not _is_called_with_type_and_value(site, node):
            name, new = site.written.removeprefix("flax."), entry.instead.removeprefix("flax.")
            message = f"On {on} `{name}` warns: it is a deprecated alias of `{new}`."
        return site.finding(
            node,
            message,
            help=entry.advice,
            fix=self._write_fix(site, entry, node),
            certainty=certainty,
        )

    def _write_fix(self, site: Site, entry: _Name, node: ast.alias | ast.Attribute) -> Fix | None:
        if not entry.instead or isinstance(node, ast.alias):
            return None
        call = site.file.parent(node)
        if isinstance(call, ast.Call) and call.func is node:
            # nnx.VariableState(type, value) is made otherwise than a Variable; the constraint had a mesh= of its own.
            if entry is not _CONSTRAIN or len(call.args) != 2 or call.keywords:
                return None
        spelling, imports = site.spell(entry.instead)
        return site.fix(Safety.SAFE, f"write {spelling}", [site.replace(node, spelling), *imports])


def _explain_error(site: Site, node: ast.AST, entry: _Name, on: str) -> str:
    name = site.written.removeprefix("flax.")
    if entry.alias:
        new = entry.instead.removeprefix("flax.")
        return f"On {on} this raises TypeError: `{name}` is now `{new}`, which takes no type argument."
    error = "ImportError" if isinstance(node, ast.alias) else "AttributeError"
    since = f"`{name}` came with flax {entry.came}" if entry.came else f"`{name}` does not exist"
    return f"On {on} this raises {error}: {since}."


def _is_called_with_type_and_value(site: Site, node: ast.AST) -> bool:
    """Return whether it is called with a type and a value."""
    call = site.file.parent(node)
    return isinstance(call, ast.Call) and call.func is node and len(call.args) > 1


def _is_flax(site: Site) -> bool:
    return (site.program.project.root / "flax" / "nnx").is_dir()


def _is_patched(site: Site) -> bool:
    """Return whether the file puts the name there itself."""
    last = site.written.rpartition(".")[2]
    found = site.file.find_mentions(last)
    return any(isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) for node in found)


def _is_unevaluated_annotation(file: FileFacts, node: ast.AST) -> bool:
    """Return whether the name is in an annotation that is never evaluated."""
    if not file.contains_text("from __future__ import annotations"):
        return False
    inner = node
    for outer in file.ancestors(node):
        if isinstance(outer, ast.arg) or (isinstance(outer, ast.AnnAssign) and inner is outer.annotation):
            return True
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
            return inner is outer.returns or inner in [one.annotation for one in _list_parameters(outer.args)]
        if isinstance(outer, ast.stmt):
            return False
        inner = outer
    return False


def _list_parameters(given: ast.arguments) -> list[ast.arg]:
    stars = [one for one in (given.vararg, given.kwarg) if one is not None]
    return [*given.posonlyargs, *given.args, *given.kwonlyargs, *stars]
