"""Level `topology` as far as it goes without any compiler of an accelerator: names, messages, limits, jobs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from shardlint.verify import Fixture, P, arg
from shardlint.verify.facts import Program
from shardlint.verify.levels import jobs_for
from shardlint.verify.topology import (
    GIB,
    check_fits,
    memory_text,
    needs_bytes,
    out_of_memory,
    parse_topology,
)

X = arg(shape=(8, 4), spec=P("data"))


@pytest.mark.parametrize(
    ("name", "platform", "wanted", "devices"),
    [
        ("v5e:4x4", "tpu", "v5e:4x4", 16),
        ("V6E:16x16", "tpu", "v6e:16x16", 256),
        (" v5p:2x2x4 ", "tpu", "v5p:2x2x4", 16),
        ("h100:8", "cuda", "1x1x8", 8),
        ("h100:4x8", "cuda", "1x4x8", 32),
    ],
)
def test_a_name_says_which_chips_lie_where(name: str, platform: str, wanted: str, devices: int) -> None:
    topology = parse_topology(name)
    assert (topology.platform, topology.jax_topology_name, topology.device_count) == (platform, wanted, devices)
    assert topology.install_command == f'pip install "shardlint[{platform}]"'


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("v5litepod-16", "is not a known topology; write v5e:4x4; v5p:2x2x4; v6e:4x4; h100:8"),
        ("a100:8", "is not a known topology"),
        ("", "is not a known topology"),
        ("v5e", "does not give the shape of the topology; write v5e:4x4"),
        ("v5e:", "does not give the shape of the topology"),
        ("v5e:4 x4", "does not give the shape of the topology"),
        ("v5e:0x4", "does not give the shape of the topology"),
        ("v5e:16", "has 1 numbers, but v5e takes 2; write v5e:4x4"),
        ("v5p:4x4", "has 2 numbers, but v5p takes 3; write v5p:2x2x4"),
        ("h100:1x8x8", "has 3 numbers, but h100 takes 1 or 2; write h100:8 or, four hosts of them, h100:4x8"),
    ],
)
def test_a_wrong_name_is_answered_with_what_to_write(name: str, said: str) -> None:
    with pytest.raises(ValueError) as raised:
        parse_topology(name)
    assert repr(name) in str(raised.value)
    assert said in str(raised.value)


def test_a_fixture_with_a_wrong_topology_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="'v5e:16' has 1 numbers"):
        Fixture("m:f", [{"data": 4}], topology=["v5e:16"])
    with pytest.raises(ValueError, match="'lots' is not a size"):
        Fixture("m:f", [{"data": 4}], topology=["v5e:2x2"], hbm_max="lots")


def test_the_command_refuses_a_wrong_topology_before_it_starts_anything() -> None:
    command = [sys.executable, "-m", "shardlint", "verify", ".", "--topology", "v5e:16"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2
    assert "Invalid value for '--topology'" in done.stderr
    assert "write v5e:4x4" in " ".join(done.stderr.split())


# As libtpu wrote them: 0.0.50 of the bundled example, 0.0.17 of x * 2 over 100 GiB.
NEW = (
    "RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory required for HLO "
    "temporaries (17.23G) exceeds available HBM (15.75G). HLO module: jit_step.\n"
    "See https://openxla.org/xla/errors/error_1000 for more details."
)
OLD = (
    "RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used 100.00G of "
    "95.74G hbm. Exceeded hbm capacity by 4.26G.\n\nTotal hbm usage >= 100.26G:\n    reserved        263.00M \n"
    "    program         unknown size \n    arguments       100.00G \n"
)


@pytest.mark.parametrize(
    ("message", "needed", "available"),
    [(NEW, "17.23 GiB", "15.75 GiB"), (OLD, "100.00 GiB", "95.74 GiB")],
)
def test_the_compilers_own_figures_are_read_from_its_refusal(
    message: str, needed: str, available: str
) -> None:
    found = out_of_memory(message)
    assert found is not None
    assert (found.needed, found.available) == (needed, available)


@pytest.mark.parametrize(
    "message",
    [
        "",
        "INTERNAL: something else",
        # Another memory than the device's own, which no hbm_max is about.
        "RESOURCE_EXHAUSTED: Ran out of memory in memory space vmem. Used 20.00M of 16.00M vmem.",
        "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 68719476736 bytes.",
    ],
)
def test_other_errors_are_no_refusal(message: str) -> None:
    assert out_of_memory(message) is None


V5E, H100 = parse_topology("v5e:4x4"), parse_topology("h100:8")


def compiled(
    arguments: float, temporaries: float, peak: float = 0, outputs: float = 0, alias: float = 0
) -> Program:
    """A program that needs so many GiB."""
    sizes = [int(size * GIB) for size in (arguments, outputs, alias, temporaries, peak)]
    return Program(
        {"data": 16},
        "a topology",
        argument_bytes=sizes[0],
        output_bytes=sizes[1],
        alias_bytes=sizes[2],
        temporary_bytes=sizes[3],
        peak_bytes=sizes[4],
    )


def test_a_tpu_program_needs_its_peak_for_its_temporaries_share_space() -> None:
    # Measured: arguments of 0.7 and temporaries of 21.2 GiB, which v5e's compiler takes at a peak of 15.5.
    program = compiled(0.7, 21.2, peak=15.5)
    assert check_fits(program, V5E, None) == []
    (failure,) = check_fits(program, V5E, 15 * GIB)
    assert failure.kind == "memory"
    assert failure.failure_text() == "needs 15.5 GiB of each device's memory, hbm_max is 15.0 GiB"
    assert "needs 15.5 GiB at its peak of the 15.8 GiB per device" in memory_text(program, V5E)


def test_a_gpu_program_needs_the_sum_and_its_compiler_refuses_nothing() -> None:
    program = compiled(40, 30, outputs=20, alias=15)
    assert needs_bytes(program, H100) == (75 * GIB, True)
    assert check_fits(program, H100, None) == []
    (failure,) = check_fits(compiled(40, 0, outputs=40), H100, None)
    assert failure.failure_text() == "needs 80.0 GiB of each device's memory, h100 has 79.1 GiB"


def test_no_hbm_max_makes_a_device_larger() -> None:
    (failure,) = check_fits(compiled(80, 0), H100, 200 * GIB)
    assert failure.failure_text().endswith("h100 has 79.1 GiB")


def test_without_the_peak_of_a_tpu_only_what_is_held_throughout_is_known() -> None:
    program = compiled(8, 100, outputs=8, alias=1)
    assert needs_bytes(program, V5E) == (15 * GIB, False)
    assert check_fits(program, V5E, None) == []
    assert [one.kind for one in check_fits(program, V5E, 14 * GIB)] == ["memory"]
    assert "needs 15.0 GiB or more (this jaxlib reports no peak)" in memory_text(program, V5E)


LISTED = {"axis_types": "auto", "processes": None, "execute": True, "reference": "", "topology": ["v5e:2x2"]}


def test_each_topology_is_a_job_with_more_time_and_simulated_devices_for_the_makers() -> None:
    jobs = jobs_for(LISTED, {"data": 4}, [], None, ["v5e:2x2", "h100:4"], 100.0)
    topologies = [job for job in jobs if job["task"] == "topology"]
    assert [(job["topology"], job["levels"], job["devices"], job["seconds"]) for job in topologies] == [
        ("v5e:2x2", ["topology"], 4, 500.0),
        ("h100:4", ["topology"], 4, 500.0),
    ]
    assert topologies[1]["with"] == " --topology h100:4"


def test_a_program_too_large_to_run_is_compiled_only() -> None:
    jobs = jobs_for({**LISTED, "execute": False}, {"data": 4}, [], None, [], 100.0)
    assert [job["levels"] for job in jobs] == [["compile"], ["topology"]]
    (asked, *_) = jobs_for({**LISTED, "execute": False}, {"data": 4}, ["execute"], None, [], 100.0)
    assert asked["skips"] == {"execute": "the fixture says execute=False"}
    with pytest.raises(ValueError, match="reference needs a program that runs"):
        Fixture("m:f", [{"data": 4}], reference="single_device", execute=False)
    with pytest.raises(ValueError, match="processes needs a program that runs"):
        Fixture("m:f", [{"data": 4}], processes=2, execute=False)
