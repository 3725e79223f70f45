"""What rules of haliax ask of a mesh."""

from __future__ import annotations

import ast

from shardlint.model.values import options
from shardlint.rules_api.site import Site


def is_mesh(site: Site, given: ast.expr) -> bool:
    """Whether it is a mesh, whatever callers give."""
    return all(site.mesh_of(one) is not None for one in options(site.program.followed(site.value(given))))
