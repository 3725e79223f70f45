"""Tests of the facts about one file: scopes, bindings, and reaching definitions."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardlint.facts.result_uses import use_of_result
from shardlint.source.text import Source
from shardlint.source.words import names_bound_to_calls
from shardlint.syntax import FileFacts, NotParsed, read_facts
from shardlint.syntax.bindings import lookup_bindings

HERE = Path("x.py")


def facts(text: str) -> FileFacts:
    return read_facts(Source(HERE, textwrap.dedent(text)), HERE)


def use(file: FileFacts, name: str, nth: int = -1) -> ast.Name:
    """The nth read of a name, by default the last."""
    list(file.inner_scopes(file.module))
    found = [
        n
        for n in ast.walk(file.tree)
        if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)
    ]
    return sorted(found, key=lambda n: (n.lineno, n.col_offset))[nth]


def reached(text: str, name: str = "x", nth: int = -1) -> list[str]:
    """The bindings that reach a use: their kinds and lines."""
    file = facts(text)
    bindings, _ = lookup_bindings(file, use(file, name, nth), name)
    return [f"{binding.kind}:{binding.line}" for binding in bindings]


# files that cannot be read


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = (\n", "line 1"),
        ("a = 1\nx = = 2\n", "line 2"),
        ("print 'hello'\n", "line 1"),
        ("def f():\n\treturn 1\n        return 2\n", "line 3"),
        ("x = 1\n  y = 2\n", "line 2"),
        ("return (\n" * 300, "line"),
    ],
)
def test_what_python_cannot_parse_is_told_with_its_line(text: str, says: str) -> None:
    with pytest.raises(NotParsed, match=says) as error:
        facts(text)
    assert "\n" not in str(error.value)
    assert error.value.line >= 1


@pytest.mark.parametrize("text", ["(" * 5000, "[" * 90 + "]" * 90 + "(" * 300, "x = " + "-" * 200_000 + "1"])
def test_what_is_nested_too_deeply_is_told(text: str) -> None:
    with pytest.raises(NotParsed):
        facts(text)


def test_invalid_escapes_warn_nobody(recwarn: pytest.WarningsRecorder) -> None:
    facts("x = '\\d'\n")
    assert not recwarn.list


# which bindings reach a use


@pytest.mark.parametrize(
    ("text", "bindings"),
    [
        pytest.param("x = 1\nx", ["assign:1"], id="straight"),
        pytest.param("x = 1\nx = 2\nx", ["assign:2"], id="rebound"),
        pytest.param("x = 1\nx = f(x)", ["assign:1"], id="reads-before-it-writes"),
        pytest.param("x = 1\nx += 2\nx", ["augment:2"], id="augmented"),
        pytest.param("x: int = 1\nx", ["assign:1"], id="annotated"),
        pytest.param("x: int\nx = 2\nx", ["assign:2"], id="declared"),
        pytest.param("x, y = 1, 2\nx", ["assign:1"], id="unpacked-literal"),
        pytest.param("x, y = f()\nx", ["unpack:1"], id="unpacked"),
        pytest.param("*x, y = f()\nx", ["unpack:1"], id="starred"),
        pytest.param("x = y = 1\nx", ["assign:1"], id="chain"),
        pytest.param("if a:\n    x = 1\nelse:\n    x = 2\nx", ["assign:2", "assign:4"], id="both-branches"),
        pytest.param("x = 0\nif a:\n    x = 1\nx", ["assign:1", "assign:3"], id="one-branch"),
        pytest.param(
            "x = 0\nif a:\n    x = 1\nelse:\n    x = 2\nx", ["assign:3", "assign:5"], id="both-branches-anew"
        ),
        pytest.param(
            "x = 0\nif a:\n    with b:\n        x = 1\nelif c:\n    x = 2\nelse:\n    raise E\nx",
            ["assign:4", "assign:6"],
            id="all-branches-anew",
        ),
        pytest.param(
            "x = 0\nif a:\n    if b:\n        x = 1\nelse:\n    x = 2\nx",
            ["assign:1", "assign:4", "assign:6"],
            id="a-branch-in-a-branch",
        ),
        pytest.param(
            "x = 0\nif a:\n    for i in y:\n        x = 1\nelse:\n    x = 2\nx",
            ["assign:1", "assign:4", "assign:6"],
            id="a-loop-in-a-branch",
        ),
        pytest.param(
            "x = 0\nfor i in y:\n    x\n    if a:\n        x = 1\n    else:\n        x = 2",
            ["assign:1", "assign:5", "assign:7"],
            id="next-turn-of-both-branches",
        ),
        pytest.param("x = 0\nif a:\n    x = 1\nelse:\n    x", ["assign:1"], id="other-branch"),
        pytest.param("if a:\n    x = 1\n    x", ["assign:2"], id="same-branch"),
        pytest.param("for i in y:\n    x = 1\n    x = f(x)\n", ["assign:2"], id="loop-binds-it-first"),
        pytest.param(
            "x = 0\nfor i in y:\n    x = f(x)\n", ["assign:1", "assign:3"], id="loop-reads-it-first"
        ),
        pytest.param("x = 0\nfor i in y:\n    x = 1\nx", ["assign:1", "assign:3"], id="loop-may-not-run"),
        pytest.param("x = 0\nfor i in y:\n    print(x)\n    x = 1", ["assign:1", "assign:4"], id="next-turn"),
        pytest.param(
            "x = 0\nwhile a:\n    if b:\n        x = 1\n    else:\n        x",
            ["assign:1", "assign:4"],
            id="turns",
        ),
        pytest.param("for x in y:\n    x", ["for:1"], id="target"),
        pytest.param("x = 0\nfor x in y:\n    pass\nx", ["assign:1", "for:2"], id="target-after"),
        pytest.param("with a as x:\n    x", ["with:1"], id="with"),
        pytest.param("x = 0\nwith a:\n    x = 1\nx", ["assign:3"], id="with-always-runs"),
        pytest.param("try:\n    x = 1\nexcept E:\n    x = 2\nx", ["assign:2", "assign:4"], id="try"),
        pytest.param(
            "x = 0\ntry:\n    x = f()\nexcept E:\n    x", ["assign:1", "assign:3"], id="handler-sees-both"
        ),
        pytest.param(
            "x = 0\ntry:\n    x = f()\nexcept E:\n    raise\nx", ["assign:3"], id="handler-that-raises"
        ),
        pytest.param("x = 0\ntry:\n    f()\nfinally:\n    x = 1\nx", ["assign:5"], id="finally"),
        pytest.param("try:\n    f()\nexcept E as x:\n    x", ["except:3"], id="except-as"),
        pytest.param("match a:\n    case [x]:\n        x", ["match:2"], id="match"),
        pytest.param("match a:\n    case {'k': 1, **x}:\n        x", ["match:2"], id="match-rest"),
        pytest.param(
            "x = 0\nmatch a:\n    case 1:\n        x = 1\n    case 2:\n        x",
            ["assign:1"],
            id="match-cases",
        ),
        pytest.param("if (x := f()):\n    x", ["walrus:1"], id="walrus"),
        pytest.param("[(x := y) for y in z]\nx", ["walrus:1"], id="walrus-leaves-a-comprehension"),
        pytest.param("x = 0\n[x for x in y]", ["comprehension:2"], id="comprehension"),
        pytest.param("x = 0\n[y for y in x]", ["assign:1"], id="first-iterable-is-outside"),
        pytest.param("x = 0\n[x for x in y]\nx", ["assign:1"], id="targets-stay-inside"),
        pytest.param("{x: v for x, v in y}", ["comprehension:1"], id="dict-comprehension"),
        pytest.param("import x\nx", ["import:1"], id="import"),
        pytest.param("import x.y.z\nx", ["import:1"], id="dotted-import"),
        pytest.param("from a import b as x\nx", ["from:1"], id="from"),
        pytest.param("def x(): pass\nx", ["def:1"], id="def"),
        pytest.param("class x: pass\nx", ["class:1"], id="class"),
        pytest.param("x = 1\ndel x\nx", [], id="deleted"),
        pytest.param("def f(x):\n    x", ["param:1"], id="parameter"),
        pytest.param("def f(x):\n    x = 1\n    x", ["assign:2"], id="parameter-rebound"),
        pytest.param("def f(*x, y, **z):\n    x", ["param:1"], id="star-parameter"),
        pytest.param("lambda x: x", ["param:1"], id="lambda"),
        pytest.param("x = 1\nlambda y=x: y", ["assign:1"], id="lambda-default-is-outside"),
        pytest.param("x = 1\ndef f():\n    x", ["assign:1"], id="closure"),
        pytest.param(
            "x = 1\ndef f():\n    x\nx = 2",
            ["assign:1", "assign:4"],
            id="closure-sees-what-stands-when-it-is-called",
        ),
        pytest.param("x = 1\ndef f(a=x):\n    pass\nx = 2", ["assign:1"], id="default-sees-the-first"),
        pytest.param("x = 1\n@x\ndef f():\n    pass", ["assign:1"], id="decorator"),
        pytest.param(
            "x = 1\nclass C:\n    x = 2\n    def f(self):\n        x",
            ["assign:1"],
            id="class-scope-is-not-seen",
        ),
        pytest.param("x = 1\nclass C:\n    x = 2\n    y = x", ["assign:3"], id="class-body-sees-itself"),
        pytest.param("x = 1\nclass C:\n    y = x\n    x = 2", ["assign:1"], id="class-body-before"),
        pytest.param("x = 1\nclass C:\n    y = x\nx = 2", ["assign:1"], id="class-body-runs-where-it-stands"),
        pytest.param(
            "x = 1\nclass C:\n    y = [x for z in w]\nx = 2", ["assign:1"], id="comprehension-in-a-class"
        ),
        pytest.param(
            "if a:\n    x = 1\nelse:\n    class C:\n        y = x", [], id="class-in-the-other-branch"
        ),
        pytest.param("x = 1\ndef f():\n    global x\n    x", ["assign:1"], id="global"),
        pytest.param(
            "def f():\n    x = 1\n    def g():\n        nonlocal x\n        x", ["assign:2"], id="nonlocal"
        ),
        pytest.param("x = 1\ndef f():\n    x\n    x = 2", [], id="local-before-it-is-set"),
        pytest.param("async def f():\n    async for x in y:\n        x", ["for:2"], id="async-for"),
        pytest.param("async def f():\n    async with y as x:\n        x", ["with:2"], id="async-with"),
        pytest.param("x = 0\nwhile True:\n    x = 1\n    break\nx", ["assign:1", "assign:3"], id="endless"),
        pytest.param(
            "if a:\n    x = 1\nelif b:\n    x = 2\nelse:\n    x = 3\nx",
            ["assign:2", "assign:4", "assign:6"],
            id="elif",
        ),
        pytest.param(
            "x = 0\nfor i in y:\n    x = 1\nelse:\n    x = 2\nx",
            ["assign:1", "assign:3", "assign:5"],
            id="for-else",
        ),
    ],
)
def test_which_bindings_reach(text: str, bindings: list[str]) -> None:
    assert reached(text) == bindings


def test_star_imports_bind_nothing_by_name() -> None:
    assert reached("from a import *\nx") == []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("def f(): global x\n", {"x"}),
        ("def f():\n    global x, y\n", {"x", "y"}),
        ("x = 'global y'\n", set()),
        ("# global y\n", set()),
    ],
)
def test_globals_that_functions_rebind(text: str, names: set[str]) -> None:
    assert facts(text).rebound_globals == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("rank = jax.process_index()\n", {"rank"}),
        ("self.rank: int = jax.process_index()\n", {"rank"}),
        ("def first(): return process_index() == 0\n", {"first"}),
        ("def outer():\n    async def inner():\n        return process_index()\n    x = 1\n", {"outer", "inner"}),
        ("def other():\n    return 1\nrank = process_index()\n", {"rank"}),
        ("def f():\n\treturn process_index()\nmain = f()\nname = 'a' if main else ''\n", {"f", "main", "name"}),
        ("process_index = 3\nrank = process_index\n", set()),
        ("old_process_index() == 1\n", set()),
    ],
)
def test_names_bound_with_calls(text: str, names: set[str]) -> None:
    assert names_bound_to_calls(text, ("process_index(", "host_id(")) == names


# places


def test_mentions_are_of_whole_words_in_code() -> None:
    file = facts("import jit\nfrom a import jit as b\nf(jit=1)\nx.jit\njits = 'jit'\ndef jit(jit): pass\n")
    assert [type(node).__name__ for node in file.find_mentions("jit")] == [
        "alias",
        "alias",
        "keyword",
        "Attribute",
        "FunctionDef",
        "arg",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "f(lambda: here)",
        "[here for a in b]",
        "[a for a in b if here]",
        "{a: here for a in b}",
        "f(**here)",
        "f(*here)",
        "x[here:1]",
        "f'{here!r:>{here}}'",
        "x = yield here",
        "await here",
        "with here: pass",
        "with a as here.b: pass",
        "raise here",
        "assert a, here",
        "del here.a",
        "return here",
        "@here\ndef f(): pass",
        "def f(a: here): pass",
        "def f(a=here): pass",
        "def f(*, a=here): pass",
        "def f() -> here: pass",
        "class A(here): pass",
        "class A(metaclass=here): pass",
        "try: pass\nexcept here: pass",
        "match a:\n case here.b: pass",
        "match a:\n case b if here: pass",
        "match here:\n case 1: pass",
        "for a in here: pass",
        "while here: pass",
        "if a: pass\nelif here: pass",
        "x: here = 1",
        "x += here",
        "(a := here)",
        "here[0] = 1",
        "try: pass\nexcept* here: pass",
        "lambda a=here: 1",
        "async def f():\n async for a in here: pass",
        "a if here else b",
        "here < 1 < 2",
        "match a:\n case {here.b: 1}: pass",
        "match a:\n case here(): pass",
        "match a:\n case here.b(c=1): pass",
    ],
)
def test_a_name_is_found_wherever_it_stands(text: str) -> None:
    body = textwrap.indent(text, "    ")
    source = f"async def outer():\n{body}\n"
    try:
        file = facts(source)
    except NotParsed:
        file = facts(f"def outer():\n{body}\n")
    found = file.find_mentions("here")
    assert [node for node in found if isinstance(node, ast.Name)], "the name is not found"
    for node in found:
        assert file.source_text(node) == "here"
        assert list(file.ancestors(node))[-1] is file.tree
        assert file.statement(node) in ast.walk(file.tree)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("ä = '→'; here()", "here()"),
        ("f(\n    here(1,\n     'ä'), 2)", "here(1,\n     'ä')"),
        ("\tif 1:\n\t\there()", "here()"),
    ],
)
def test_text_of_a_node_is_what_was_written(text: str, place: str) -> None:
    file = facts(f"if 1:\n{text}\n" if text.startswith("\t") else text)
    (name,) = file.find_mentions("here")
    call = file.parent(name)
    assert call is not None
    assert file.source_text(call) == place


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_nodes_are_where_they_are_whatever_ends_a_line(newline: str) -> None:
    text = newline.join(["'''a", "b'''", "\x0c", "x = [1,", "     here()]", ""])
    file = read_facts(Source(HERE, text), HERE)
    (name,) = file.find_mentions("here")
    assert file.character_span(name) == (text.index("here"), text.index("here") + 4)


# what becomes of a result


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("here()", "dropped"),
        ("x = here()", "never read"),
        ("x = here()\nx = 2\nreturn x", "never read"),
        ("x: int = here()", "used"),
        ("x = here()\nreturn x", "used"),
        ("_ = here()", "used"),
        ("_x = here()", "used"),
        ("x = y = here()", "used"),
        ("x, y = here()", "used"),
        ("a.x = here()", "used"),
        ("x = here()\ndef g(): return x", "used"),
        ("x = here()\nreturn locals()", "used"),
        ("global x\nx = here()", "used"),
        ("x = here()\ndel x", "used"),
        ("x = here()\nx += 1", "used"),
        ("return here()", "used"),
        ("f(here())", "used"),
        ("yield here()", "used"),
        ("for i in y:\n    f(x)\n    x = here()", "used"),
        ("if a:\n    x = here()\nelse:\n    x = 1\nreturn x", "used"),
        ("x = here()\nreturn [x for x in y]", "never read"),
        ("x = here()\nreturn [x for z in y]", "used"),
        ("try:\n    x = here()\nfinally:\n    f(x)", "used"),
        ("while a:\n    x = here()\n    if b: break\nelse:\n    return 1\nreturn x", "used"),
    ],
)
def test_the_fate_of_a_result(body: str, expected: str) -> None:
    file = facts("def f(y):\n" + textwrap.indent(body, "    ") + "\n")
    (name,) = file.find_mentions("here")
    call = file.parent(name)
    assert isinstance(call, ast.Call)
    assert use_of_result(file, call)[0] == expected


def test_at_module_level_others_may_read_it() -> None:
    file = facts("x = here()\n")
    call = file.parent(file.find_mentions("here")[0])
    assert isinstance(call, ast.Call)
    assert use_of_result(file, call)[0] == "used"


# generated programs: nothing raises, and what is found makes sense

_names = st.sampled_from(["a", "b", "c"])
_expressions = st.recursive(
    _names | st.just("1"),
    lambda inner: st.one_of(
        st.builds("f({}, {})".format, inner, inner),
        st.builds("[{} for {} in {}]".format, inner, _names, inner),
        st.builds("(lambda {}: {})".format, _names, inner),
        st.builds("({} := {})".format, _names, inner),
        st.builds("({} if {} else {})".format, inner, inner, inner),
        st.builds("{}.x".format, _names),
    ),
    max_leaves=5,
)


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _block(head: str) -> st.SearchStrategy[list[str]]:
    return _bodies.map(lambda body: [head, *_indented(body)])


def _two(head: str, other: str) -> st.SearchStrategy[list[str]]:
    return st.tuples(_bodies, _bodies).map(lambda two: [head, *_indented(two[0]), other, *_indented(two[1])])


_simple = st.one_of(
    st.builds("{} = {}".format, _names, _expressions),
    st.builds("{}, {} = {}".format, _names, _names, _expressions),
    st.builds("{} += {}".format, _names, _expressions),
    st.builds("del {}".format, _names),
    st.builds("import {}".format, _names),
    st.builds("{}: int".format, _names),
    st.builds("f({})".format, _expressions),
).map(lambda line: [line])
_bodies: st.SearchStrategy[list[str]] = st.deferred(
    lambda: st.lists(_statements, min_size=1, max_size=3).map(
        lambda parts: [line for part in parts for line in part]
    )
)
_statements: st.SearchStrategy[list[str]] = st.deferred(
    lambda: st.one_of(
        _simple,
        _names.flatmap(lambda name: _block(f"for {name} in f(b):")),
        _two("if c:", "else:"),
        _two("while a:", "else:"),
        _names.flatmap(lambda name: _two("try:", f"except E as {name}:")),
        _two("try:", "finally:"),
        _names.flatmap(lambda name: _block(f"with f(a) as {name}:")),
        _names.flatmap(lambda name: _block(f"def {name}({name}, *, b=c):")),
        _names.flatmap(lambda name: _block(f"class {name}:")),
        _names.flatmap(lambda name: _two(f"match b:\n  case [{name}, *_]:", "  case _:").map(_match)),
    )
)


def _match(lines: list[str]) -> list[str]:
    return "\n".join(lines).split("\n")


@pytest.mark.longer
@given(_bodies)
@settings(derandomize=True, deadline=None, max_examples=80)
def test_reaching_is_total_and_finds_bindings_of_that_name(lines: list[str]) -> None:
    text = "\n".join(lines) + "\n"
    try:
        compile(text, "x.py", "exec")
    except SyntaxError:  # a walrus where Python forbids one
        return
    file = facts(text)
    scopes = list(file.inner_scopes(file.module))
    for name in "abc":
        for node in file.find_mentions(name):
            if not isinstance(node, ast.Name):
                continue
            bindings, owner = lookup_bindings(file, node, name)
            assert all(binding.name == name for binding in bindings)
            assert len(set(map(id, bindings))) == len(bindings)
            assert owner is None or owner in scopes
            assert file.source_text(node) == name
    for scope in scopes:
        for call in scope.calls:
            use_of_result(file, call)
