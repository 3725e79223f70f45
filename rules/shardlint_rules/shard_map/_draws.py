"""Whether a model that is given `rngs` draws any random numbers. For SL407."""

from __future__ import annotations

import ast
from typing import TypeGuard

from shardlint.model import Program
from shardlint.model.values import (
    Api,
    CallResult,
    ClassValue,
    Function,
    Place,
    Transformed,
    Unknown,
    Value,
    options,
)
from shardlint.source.patterns import regex
from shardlint.syntax import FileFacts
from shardlint.syntax.nodes import walk

_RANDOM = regex(r"(?i)dropout|drop_?path|make_rng|random|stochastic|\brngs?\b|noise|sample|reparam|gumbel")
_DEPTH = 5


def draws_nothing(program: Program, place: Place) -> bool:
    """Whether a key among the `rngs` of a call goes to a model of the project in which surely nothing asks for one."""
    call = next((one for one in (place.node, *place.file.ancestors(place.node)) if _takes_rngs(one)), None)
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr == "apply":
        models = [Place(place.file, call.func.value)]
    elif call.func.attr == "apply_fn":
        models = _kept_in_states(program, place.file)
    else:
        return False
    found = [
        one for model in models for one in options(program.followed(program.value(model.file, model.node)))
    ]
    classes = [one.by for one in found if isinstance(one, CallResult) and isinstance(one.by, ClassValue)]
    if not classes or len(classes) < len(found):
        return False
    return all(_quiet(program, one, set(), 0) for one in classes)


def _takes_rngs(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and any(one.arg == "rngs" for one in node.keywords)


def _kept_in_states(program: Program, file: FileFacts) -> list[Place]:
    """The models whose `apply` training states keep."""
    found = []
    for other in program.together(file):
        for mention in other.mentions("apply_fn"):
            if isinstance(mention, ast.keyword) and isinstance(mention.value, ast.Attribute):
                found.append(Place(other, mention.value.value))
    return found


def _quiet(program: Program, value: Value, met: set[ast.AST], depth: int) -> bool:
    while isinstance(value, Transformed):
        value = value.inner
    if isinstance(value, Api):
        return not _RANDOM.search(value.name)
    if not isinstance(value, ClassValue | Function) or depth > _DEPTH:
        return False
    if value.node in met:
        return True
    met.add(value.node)
    file = value.place.file
    if _RANDOM.search(value.place.text()):
        return False
    bases = value.node.bases if isinstance(value, ClassValue) else []
    for base in bases:
        if not all(_quiet(program, one, met, depth + 1) for one in options(program.value(file, base))):
            return False
    loops = [one for one in walk(value.node) if isinstance(one, ast.For | ast.comprehension)]
    over = {name.id for one in loops for name in walk(one.target) if isinstance(name, ast.Name)}
    for call in walk(value.node):
        if not isinstance(call, ast.Call) or not _may_be_a_layer(call.func):
            continue
        for one in options(program.value(file, call.func)):
            made = isinstance(one, CallResult) and isinstance(one.by, ClassValue | Api)
            passed = isinstance(call.func, ast.Attribute) or call.func.id in over
            if made or (isinstance(one, Unknown) and passed):
                continue  # an object that was made by a call which is looked at, too; or a method of an array
            if not _quiet(program, one, met, depth + 1):
                return False
    return True


def _may_be_a_layer(func: ast.expr) -> TypeGuard[ast.Name | ast.Attribute]:
    """Whether what is called is no method of something that an expression gives."""
    return isinstance(func, ast.Name) or (
        isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name)
    )
