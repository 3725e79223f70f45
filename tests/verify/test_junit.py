"""JUnit XML as CI systems read it."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from shardlint.verify.junit import junit_report
from shardlint.verify.report import FAIL, PASS, Failure, Run, text_report

from .made import hostile, result, run

# What the schemas in use (Jenkins' and Ant's) agree on: of each element its attributes, those it must have with
# a "!", and its children in order.
SHAPE = {
    "testsuites": ("name tests failures errors skipped time", "testsuite*"),
    "testsuite": ("name! tests! failures! errors! skipped time", "properties? testcase*"),
    "properties": ("", "property*"),
    "property": ("name! value!", ""),
    "testcase": ("name! classname! time! file", "skipped? failure? system-out?"),
    "failure": ("message! type!", ""),
    "skipped": ("message!", ""),
    "system-out": ("", ""),
}


def check(element: ElementTree.Element) -> None:
    attributes, children = SHAPE[element.tag]
    known = {name.rstrip("!") for name in attributes.split()}
    assert set(element.attrib) <= known, element.tag
    assert {name[:-1] for name in attributes.split() if name.endswith("!")} <= set(element.attrib)
    names = "".join(f"({name[:-1]} ){name[-1]}" for name in children.split())
    assert re.fullmatch(names, "".join(f"{child.tag} " for child in element)), element.tag
    for child in element:
        check(child)


def read(made: Run) -> ElementTree.Element:
    text = junit_report(made, "1.2.3")
    assert text.startswith('<?xml version="1.0" encoding="utf-8"?>')
    root = ElementTree.fromstring(text.encode())
    check(root)
    for element in (root, *root.iter("testsuite")):
        cases = list(element.iter("testcase"))
        assert int(element.attrib["tests"]) == len(cases)
        assert int(element.attrib["failures"]) == sum(case.find("failure") is not None for case in cases)
        assert int(element.attrib["skipped"]) == sum(case.find("skipped") is not None for case in cases)
        assert float(element.attrib["time"]) == pytest.approx(
            sum(float(case.attrib["time"]) for case in cases)
        )
    return root


def test_a_case_is_a_fixture_on_a_mesh_at_a_level() -> None:
    root = read(run(Path("model.py"), [{"data": 4, "model": 2}, {"data": 8, "model": 1}]))
    cases = {(case.attrib["classname"], case.attrib["name"]): case for case in root.iter("testcase")}
    assert list(cases) == [
        ("proj.train:step", "mesh data=4,model=2 compile"),
        ("proj.train:step", "mesh data=4,model=2 execute"),
        ("proj.train:step", "mesh data=8,model=1 compile"),
        ("proj.train:step", "mesh data=8,model=1 execute"),
        ("SL201", "compile"),
    ]
    failed, passed, _, skipped, _ = cases.values()
    failure = failed.find("failure")
    assert failure is not None and failure.text is not None
    assert failure.attrib["message"].startswith(
        "out[0]['w'][1] f32[1024,4096]  expected P('data', 'model')  got P()"
    )
    assert failure.attrib["message"].endswith("(and 1 more)")
    assert failure.attrib["type"] == "sharding, golden"
    assert "out[1]  differs from fx.golden/step.toml\n- P('data')\n+ P()\n" in failure.text
    assert "rerun: shardlint verify proj/fx.py::step" in failure.text
    assert list(passed) == [] and passed.attrib["file"] == "proj/fx.py"
    assert (skipped[0].tag, skipped[0].attrib["message"]) == ("skipped", "not executed")
    properties = {one.attrib["name"]: one.attrib["value"] for one in root.iter("property")}
    assert properties == {
        "shardlint": "1.2.3",
        "python": "3.13.0",
        "jax": "0.12.0",
        "jaxlib": "0.12.0",
        "limit": "no memory limit",
    }


def test_topologies_and_files_that_cannot_be_read_have_cases_of_their_own() -> None:
    mesh = {"data": 16}
    broken = result(mesh, "", FAIL, failures=[Failure("raised", "no module 'x'")], fixture="")
    broken.mesh, broken.target = None, "proj/fx.py"
    topologies = [result(mesh, "topology", PASS, topology=name) for name in ("v5e:4x4", "v6e:4x4")]
    root = read(Run([*topologies, broken], {}, [], []))
    names = [case.attrib["name"] for case in root.iter("testcase")]
    assert names == ["mesh data=16 topology v5e:4x4", "mesh data=16 topology v6e:4x4", "collect"]


def test_nothing_to_say() -> None:
    assert len(read(Run([], {}, [], []))) == 0
    empty = read(Run([result({"data": 1}, "compile", FAIL)], {}, [], []))
    assert [failure.attrib["message"] for failure in empty.iter("failure")] == ["failed"]


@pytest.mark.parametrize(
    "text", ["\x1b[31m]]>\x00", "<failure>&amp;\"'", "\ufffe\udc80\u202e", "a\r\nb\tc\x0b"]
)
def test_what_xml_and_terminals_must_not_see_is_made_harmless(text: str) -> None:
    made = hostile(text, "model.py")
    written = junit_report(made, text)
    forbidden = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff\ufffe\uffff]"
    assert not re.search(forbidden, written)
    read(made)
    assert not re.search(forbidden, text_report(made, False))
