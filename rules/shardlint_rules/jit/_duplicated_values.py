"""Objects that are made with one value for two fields: `State(params=params, average=params)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.facts.lifetime.donating_calls import DonatingCall
from shardlint.facts.lifetime.lifetimes import Lifetimes
from shardlint.model.values import CallResult, ClassValue, Constant, Place, options
from shardlint.rules_api.rule import Keywords
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts
from shardlint.syntax.bindings import lookup_bindings

COPIES = (
    *("average", "average_params", "averaged_params", "avg", "avg_params", "best_params", "ema", "ema_model"),
    *(
        "ema_params",
        "ema_state",
        "fast",
        "initial_params",
        "init_params",
        "model_ema",
        "old_params",
        "params_ema",
    ),
    *("polyak_params", "previous_params", "prev_params", "reference_params", "ref_params", "shadow"),
    *("shadow_params", "slow", "slow_params", "snapshot", "target", "target_params", "target_q_params"),
    *(
        "teacher",
        "teacher_params",
        "teacher_model",
        "theta_target",
        "weights_ema",
        "ema_weights",
        "swa_params",
    ),
)
"""What people call a copy of parameters."""
DUPLICATES = tuple(
    Keywords(name, file_says=(rf"(?:){name}(?<!\w{name})\s*=\s*[A-Za-z_][\w.]*\s*[,)]",)) for name in COPIES
)
"""The calls that may give such a keyword what another one is given."""
_NO_LEAF = ("static", "pytree_node=False", "ClassVar")


def duplicated_keywords(site: Site) -> Iterator[tuple[ast.keyword, ast.keyword]]:
    """The keywords for copies in a call, each with another one that is given the same name or attribute."""
    for own in site.call.keywords:
        if own.arg not in COPIES or not isinstance(own.value, ast.Name | ast.Attribute):
            continue
        same = (
            one for one in site.call.keywords if one is not own and ast.dump(one.value) == ast.dump(own.value)
        )
        other = next(same, None)
        if other is not None and not all(isinstance(one, Constant) for one in options(site.value(own.value))):
            yield own, other


def call_donating_duplicate(site: Site, field: str) -> tuple[FileFacts, DonatingCall] | None:
    """A call that donates the object which a call with one value for two fields makes."""
    call = site.call
    name = _constructed_class_name(site, field)
    if name is None:
        return None
    donations = site.program.find_room(Lifetimes).donations
    for file in _files_mentioning(site, name):
        for scope in file.inner_scopes(file.module):
            for one in file.walk_scope(scope).calls if scope.kind in ("module", "function") else ():
                found = donations.find_donations(file, one) if one.args or one.keywords else None
                if found is not None and any(_is_it(site, file, given.node, call) for given in found.donated_arguments):
                    return file, found
    return None


def _files_mentioning(site: Site, name: str) -> Iterator[FileFacts]:
    yield site.file
    for file in site.program.project.files_holding(site.file.path, (name,)):
        if file is not None and file is not site.file:
            yield file


def _constructed_class_name(site: Site, field: str) -> str | None:
    """The name of the class of the project that a call makes an instance of, where the field is a leaf of it."""
    for cls in _instance_classes(site):
        found = site.program.evaluator.classes.objects.list_fields(cls).get(field)
        if found is None:
            return None
        binding, owner = found
        text = owner.place.file.source_text(owner.place.file.statement(binding.node))
        return None if any(word in text for word in _NO_LEAF) else cls.node.name
    return None


def _instance_classes(site: Site) -> Iterator[ClassValue]:
    """The class whose instance a call makes: its own call, or that of flax's `TrainState.create`."""
    for one in options(site.value(site.call)):
        if isinstance(one, CallResult) and isinstance(one.by, ClassValue):
            yield one.by
    func = site.call.func
    if isinstance(func, ast.Attribute) and func.attr == "create":
        for cls in options(site.value(func.value)):
            if isinstance(cls, ClassValue) and "TrainState" in site.text(func.value) + ast.dump(cls.node):
                yield cls


def _is_it(site: Site, file: FileFacts, node: ast.expr, call: ast.AST) -> bool:
    if isinstance(node, ast.Name) and file is site.file:
        bindings, _ = lookup_bindings(file, node, node.id)
        if any(binding.value is call for binding in bindings):
            return True
    return any(
        isinstance(one, CallResult) and one.call is not None and one.call.place.node is call
        for one in options(site.program.evaluator.value(Place(file, node)))
    )
