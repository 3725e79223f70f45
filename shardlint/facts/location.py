"""A place in a project, and the questions that it answers without a rule."""

from __future__ import annotations

import ast
from functools import cached_property

from shardlint.config.targets import Targets
from shardlint.config.versions import format_release, is_release_allowed
from shardlint.facts.shardings import Shardings
from shardlint.model import Program
from shardlint.model.mesh.contexts import Context
from shardlint.model.mesh.meshes import Mesh, Spec, mesh_of, sharding_parts, spec_of
from shardlint.model.shapes import Shape, shape_of
from shardlint.model.traced import Region
from shardlint.model.values import Place, Value
from shardlint.syntax import FileFacts, Scope
from shardlint.syntax.guards import expected_to_fail
from shardlint.syntax.release_guards import is_release_guarded


class Location:
    """A node of a file, in its project and on the releases that the project is checked for."""

    def __init__(self, program: Program, file: FileFacts, syntax: ast.AST, targets: Targets) -> None:
        self.program = program
        self.file = file
        self.syntax = syntax
        self.targets = targets

    def is_named_anywhere(self, text: str) -> bool:
        """Return whether the file or any that runs with it holds a dotted name."""
        return self.program.project.is_named_anywhere(self.file.path, text)

    def value(self, node: ast.AST) -> Value:
        """Return the value of an expression."""
        return self.program.value(self.file, node)

    def text(self, node: ast.AST | None = None) -> str:
        """The source text of a node."""
        return self.file.source_text(node if node is not None else self.syntax)

    def shown(self, node: ast.AST | None = None) -> str:
        """The source text of a node on one line, as findings quote it."""
        return " ".join(self.text(node).split())

    def where(self, place: Place) -> str:
        """The line of a place as findings name it: `line 12`, in another file `train.py:12`."""
        return f"line {place.line}" if place.file is self.file else f"{place.file.path.name}:{place.line}"

    def mesh_of(self, value: Value) -> Mesh | None:
        """The mesh a value is."""
        return mesh_of(value, self.program.evaluator)

    def spec_of(self, value: Value) -> Spec | None:
        """The PartitionSpec a value is."""
        return spec_of(value, self.program.evaluator)

    def sharding_parts(self, value: Value) -> tuple[Value, Value] | None:
        """Mesh and spec of a NamedSharding."""
        return sharding_parts(value, self.program.evaluator)

    def shape_of(self, place: Place) -> Shape | None:
        """The shape of the array that an expression makes."""
        return shape_of(self.program.evaluator, place)

    @cached_property
    def shardings(self) -> Shardings:
        """Where arrays are, and what shardings do, on the releases of the project."""
        return Shardings(self.program, self.targets)

    @cached_property
    def region(self) -> Region:
        """Return the traced region of the place, and what makes it one."""
        return self.program.region(self.file, self.syntax)

    @cached_property
    def region_in_sight(self) -> Region:
        """Return the traced region by the visible calls alone, as if there were no others. Ask it last."""
        return self.program.region_in_sight(self.file, self.syntax)

    @cached_property
    def context(self) -> Context:
        """The mesh contexts of the place."""
        return self.program.mesh_contexts(self.file, self.syntax)

    @cached_property
    def guarded(self) -> bool:
        """True if the place runs only on some releases."""
        return is_release_guarded(self.file, self.syntax)

    @cached_property
    def expected_to_fail(self) -> bool:
        """True if a test expects this code to raise or warn."""
        return expected_to_fail(self.file, self.syntax)

    @property
    def scope(self) -> Scope:
        """The scope the place is in."""
        return self.file.evaluation_scope(self.syntax)

    def target(self, package: str) -> tuple[int, ...]:
        """The release of a package the checked project runs on."""
        return self.targets.release_of(package)

    def allows(self, package: str, specifier: str) -> bool:
        """Return whether the project's release of a package is in a range such as ">=0.13.1"."""
        return self.targets.is_release_in(package, specifier)

    def pinned(self, package: str, specifier: str) -> bool:
        """Return whether the project itself pins an exact release in a range, whatever release it is checked for."""
        pinned = self.targets.found[package].pinned
        return pinned is not None and is_release_allowed(specifier, pinned)

    def is_pinned_exactly(self, package: str) -> bool:
        """Return whether the project's own folder names one release. A range proves no older one."""
        source = self.targets.found[package].source
        return source.startswith(("pinned in", "--target", "targets in")) and "/" not in source

    def release(self, package: str) -> str:
        """The package with its release, for messages: "jax 0.12"."""
        return f"{package} {format_release(self.target(package))}"
