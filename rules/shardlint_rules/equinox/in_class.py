"""Names of a class body, as its methods can say them: `rows` beside a decorated method is `Net.rows` inside it."""

from __future__ import annotations

import ast

from shardlint.rules_api.site import Site
from shardlint.syntax import Scope, last_name
from shardlint.syntax.bindings import lookup_bindings
from shardlint.syntax.nodes import walk_nodes

# Classes that make something else of what their body binds.
_OTHERWISE = ("Enum", "IntEnum", "StrEnum", "Flag", "IntFlag", "NamedTuple", "TypedDict")


def text_in_class_body(site: Site, node: ast.expr) -> str:
    """The text of an expression, with the class before the names of its body where a method of it is decorated."""
    text, start = site.text(node), site.file.character_span(node)[0]
    places = {
        site.file.character_span(part)[0] - start: owner
        for part in walk_nodes(node)
        if isinstance(part, ast.Name) and (owner := class_of_name(site, part)) is not None
    }
    for place in sorted(places, reverse=True):
        text = f"{text[:place]}{places[place]}.{text[place:]}"
    return text


def class_of_name(site: Site, name: ast.Name) -> str | None:
    """The class that a name beside the site's decorated method is of, where its attribute stays what it is there."""
    definition = site.decorated
    if definition is None or not isinstance(name.ctx, ast.Load):
        return None
    bindings, scope = lookup_bindings(site.file, name, name.id)
    home = site.file.evaluation_scope(definition)
    owner = home.node
    if scope is None or scope is not home or not isinstance(owner, ast.ClassDef):
        return None
    one = bindings[0] if len(bindings) == len(site.file.bindings(home, name.id)) == 1 else None
    if one is None or not isinstance(site.file.statement(one.node), ast.Assign):
        return None  # of a field a class may make something else
    if owner.keywords or {last_name(base) for base in owner.bases} & set(_OTHERWISE):
        return None
    outer = home.parent
    if outer is None or outer.kind == "class" or len(site.file.bindings(outer, owner.name)) != 1:
        return None
    return (
        None
        if _used_in_body(site, home, definition.name) or _is_attribute_reassigned(site, owner, name.id)
        else owner.name
    )


def _used_in_body(site: Site, scope: Scope, method: str) -> bool:
    """Return whether the body of the class itself uses the method, before the class has a name."""
    uses = [one for one in site.file.find_mentions(method) if isinstance(one, ast.Name)]
    return any(isinstance(one.ctx, ast.Load) and site.file.evaluation_scope(one) is scope for one in uses)


def _is_attribute_reassigned(site: Site, owner: ast.ClassDef, name: str) -> bool:
    """Return whether code gives the attribute of the class another value."""
    text = rf"(?:)\b(?:cls|type\(self\)|__class__|{owner.name})\.{name}[ \t]*=(?!=)"
    return bool(site.program.project.paths_holding(site.file.path, (text,)))
