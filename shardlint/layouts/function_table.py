"""The functions of libraries by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from shardlint.layouts.values import Call, Value

Implementation = Callable[[Call], Value]


class FunctionTable(dict[str, Implementation]):
    """Implementations of library functions, by canonical name.

    `modules` are those that enter the functions of a library which few files import, when the first one does.
    """

    def __init__(self, functions: Mapping[str, Implementation], modules: dict[str, list[str]]) -> None:
        super().__init__(functions)
        self.modules = modules

    def load_library(self, library: str) -> None:
        """Enter the functions of a library that a file imports."""
        for module in self.modules.pop(library, ()):
            import_module(module)
