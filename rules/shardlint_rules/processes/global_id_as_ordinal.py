"""SL817."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.process.processes import asks_itself, several
from shardlint.model.reach import lookup, readers
from shardlint.model.signatures import parameters_of
from shardlint.model.values import CallResult, Function, Place, options
from shardlint.rules_api.rule import Attributes, Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import FileFacts, last_name
from shardlint_rules.processes.alone import alone

_ALL, _OWN = "jax.devices", "jax.local_devices"
_GPU = r"(?:gpu|cuda|hip|rocm|nvml|nvidia|cupy)"
# Names of functions and parameters that take the number of a device among those of this host.
_ORDINAL = regex(
    rf"(?i)^{_GPU}_?(?:id|idx|index|device|num|ordinal|no)?$|ordinal|{_GPU}.*(?:id|index|handle|device)$"
    r"|byindex$|^local_(?:device_)?(?:id|idx|index|rank)$|^set_device$|^get_device_(?:prop|cap|name)\w*$"
)
_DEVICE = regex(rf"(?i){_GPU}:$")


class GlobalIdAsOrdinal(Rule):
    """The id of a device, which counts those of all processes, is used as its number on this host.

    On the second host of four GPUs the ids are 4 to 7, and a function that takes the number of a GPU there knows 0 to
    3. It raises, or uses another GPU. With one process both are the same.

    ## Reports
    - `ordinal` (likely): `device.id` of a device of `jax.local_devices()` or `jax.devices()` that becomes the number of
      a GPU on its host: a parameter such as `gpu_id`, an argument of NVML, CuPy or torch (`f"cuda:{d.id}"`), or
      `CUDA_VISIBLE_DEVICES`.
    - `index` (possible): `device.id` as an index of `jax.local_devices()`.
    - `process` (likely): `jax.local_devices()[jax.process_index()]`.
    - `process-of-all` (possible): `jax.devices()[jax.process_index()]`, which is right if each process has one device.

    ## Write instead
    `device.local_hardware_id`, or the index in the list: `enumerate(jax.local_devices())`.
    """

    code = "SL817"
    name = "global-id-as-ordinal"
    harm = Harm.CRASH
    certainty = Certainty.POSSIBLE
    likely = ("ordinal", "process")
    assumptions: ClassVar[Mapping[str, str]] = {
        "ordinal": "The program runs on more than one host.",
        "process": "The program runs on more than one process.",
    }
    triggers = (
        Attributes("id", file_says=("local_devices(", "jax.devices(")),
        Calls("jax.process_index", file_says=("local_devices(", "jax.devices(")),
    )
    in_tests = False
    fixes = "none"
    forms = ("attribute", "call")

    def check(self, site: Site) -> Iterator[Finding]:
        """At most one finding for an id, one for each list that the index of a process chooses from."""
        node = site.syntax
        if site.form == "call":
            yield from self._by_process(site)
        if not isinstance(node, ast.Attribute):
            return
        taken = self._taken(site, node)
        if taken is None:
            return
        form, what = taken
        source = _device(site, node.value)
        if not source:
            return
        if (
            source == _ALL
            and not asks_itself(site.file)
            and several(site.program, site.file) != "initialized"
        ):
            return
        if alone(site.program, Place(site.file, node)):
            return
        yield site.finding(
            node,
            f"On the second host `{site.text(node)}` is too large: it counts the devices of all processes.",
            help=f"write {site.text(node.value)}.local_hardware_id, or use the place in jax.local_devices()",
            form=form,
            why=f"{what} the number of a device on this host, and the device is one of {source}()",
        )

    def _by_process(self, site: Site) -> Iterator[Finding]:
        """The index of a process that chooses one of a list of devices."""
        for use in _uses(site):
            parent = site.file.parent(use)
            if not isinstance(parent, ast.Subscript) or parent.slice is not use:
                continue
            own = bool(_made(site, parent.value, _OWN))
            if not own and not _made(site, parent.value, _ALL):
                continue
            text = site.text(parent.value)
            yield site.finding(
                parent,
                f"On the second process this raises IndexError or picks the wrong device: `{text}` lists local devices."
                if own
                else f"If a process has several devices, this takes a device of another process from `{text}`.",
                help="write jax.local_devices()[0]",
                form="process" if own else "process-of-all",
                why="the index of a process is not the number of a device",
            )

    def _taken(self, site: Site, node: ast.Attribute) -> tuple[str, str] | None:
        """What an id becomes, where that is the number of a device on this host: the form, and words for it."""
        inner: ast.expr = node
        parent = site.file.parent(inner)
        while isinstance(parent, ast.Call) and last_name(parent.func) in ("int", "str"):
            inner, parent = parent, site.file.parent(parent)
        match parent:
            case ast.Subscript(value=value, slice=index) if index is inner and _made(site, value, _OWN):
                return "index", f"`{site.text(value)}[...]` takes"
            case ast.FormattedValue():
                return self._formatted(site, parent)
            case ast.Assign(targets=[ast.Subscript(slice=ast.Constant(value=str() as key))]):
                return ("ordinal", f"{key} takes") if "VISIBLE_DEVICES" in key else None
            case ast.keyword(arg=str() as name):
                return ("ordinal", f"`{name}` is") if _ORDINAL.search(name) else None
            case ast.Call() if inner in parent.args:
                return self._argument(site, parent, inner)
        return None

    def _formatted(self, site: Site, part: ast.FormattedValue) -> tuple[str, str] | None:
        text = site.file.parent(part)
        if not isinstance(text, ast.JoinedStr) or part not in text.values:
            return None
        at = text.values.index(part)
        before = text.values[at - 1] if at else None
        if (
            isinstance(before, ast.Constant)
            and isinstance(before.value, str)
            and _DEVICE.search(before.value)
        ):
            return "ordinal", f"`{before.value}` takes"
        return None

    def _argument(self, site: Site, call: ast.Call, given: ast.expr) -> tuple[str, str] | None:
        name = last_name(call.func)
        if _ORDINAL.search(name):
            return "ordinal", f"`{name}` takes"
        if name in ("device", "Device") and site.text(call.func).startswith(("torch.", "cupy.", "cp.")):
            return "ordinal", f"`{site.text(call.func)}` takes"
        for option in options(site.value(call.func)):
            taken = parameters_of(option, site.program.evaluator) if isinstance(option, Function) else None
            bound = taken.bind(site.program.evaluator.arguments(Place(site.file, call))) if taken else None
            for parameter, place in (bound or {}).items():
                if place.node is given and _ORDINAL.search(parameter):
                    return "ordinal", f"`{parameter}` of `{name}` is"
        return None


def _uses(site: Site) -> Iterator[ast.AST]:
    """The call itself, or where the one name that it is given is read."""
    yield site.call
    parent = site.file.parent(site.call)
    if (
        isinstance(parent, ast.Assign)
        and len(parent.targets) == 1
        and isinstance(parent.targets[0], ast.Name)
    ):
        for use, _ in readers(site.file, parent.targets[0]):
            if len(lookup(site.file, use, use.id)[0]) == 1:
                yield use


def _device(site: Site, node: ast.expr, depth: int = 0) -> str:
    """The function of jax that lists the devices of which an expression is one."""
    if isinstance(node, ast.Subscript):
        return _made(site, node.value, _OWN) or _made(site, node.value, _ALL)
    if not isinstance(node, ast.Name) or depth > 2:
        return ""
    bindings, _ = lookup(site.file, node, node.id)
    found = {_bound(site, one.node, one.value, depth) for one in bindings}
    return found.pop() if len(found) == 1 else ""


def _bound(site: Site, target: ast.AST, value: ast.expr | None, depth: int) -> str:
    loop = _loop(site.file, target)
    if loop is not None:
        listed = loop
        while (
            isinstance(listed, ast.Call)
            and last_name(listed.func) in ("enumerate", "list", "sorted")
            and listed.args
        ):
            listed = listed.args[0]
        return _made(site, listed, _OWN) or _made(site, listed, _ALL)
    return _device(site, value, depth + 1) if value is not None else ""


def _loop(file: FileFacts, target: ast.AST) -> ast.expr | None:
    """What a loop goes through that gives a name its values."""
    node: ast.AST | None = target
    parent = file.parent(target)
    if isinstance(parent, ast.Tuple) and parent.elts[-1] is target:
        node, parent = parent, file.parent(parent)
    if isinstance(parent, ast.For | ast.comprehension) and parent.target is node:
        return parent.iter
    return None


def _made(site: Site, node: ast.expr, name: str) -> str:
    """The name, where an expression is surely what a function of that name gives."""
    found = options(site.value(node))
    return name if found and all(isinstance(one, CallResult) and one.api == name for one in found) else ""
