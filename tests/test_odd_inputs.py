"""Odd files and folders, through the command as people run it: it ends soon, tells what it left out, and checks the rest."""

from __future__ import annotations

import codecs
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from shardlint.engine.one_file import Checker
from shardlint.engine.results import Options
from shardlint.engine.run import check_paths as check_in_process
from shardlint.model import project
from shardlint.rewrite.unused_imports import drop_unused_imports
from shardlint.source.decoding import decode_file
from shardlint.source.find import find_python_files
from shardlint.source.text import MAX_BYTES, NOTEBOOK_BYTES, Source, Unreadable, read_bytes
from shardlint.syntax import read_facts

Write = Callable[..., Path]
Start = Callable[..., subprocess.CompletedProcess[bytes]]

BAD = b"""import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(jax.devices(), ("data",))


@jax.jit
def step(x):
    x = jax.device_put(x, NamedSharding(mesh, P("data")))
    return x * 2
"""
CALL = BAD.splitlines()[8]


posix = pytest.mark.skipif(os.name != "posix", reason="POSIX files")


# They share what one run of each command says, so one worker has them all.
of_one_run = pytest.mark.xdist_group("odd files")


def changed(old: bytes, new: bytes) -> bytes:
    assert old in BAD
    return BAD.replace(old, new)


# Each file, and the lines of its SL201; or what is said where nothing of it can be checked.
FILES: dict[str, tuple[bytes, list[int] | str]] = {
    "plain.py": (BAD, [9]),
    "bom.py": (b"\xef\xbb\xbf" + BAD, [9]),
    "form_feeds.py": (changed(b"\n\n\n", b"\n\x0c\n\n\x0c"), [9]),
    "cr.py": (BAD.replace(b"\n", b"\r"), [9]),
    "mixed.py": (BAD.replace(b"\n", b"\r\n", 3).replace(b"jit\n", b"jit\r"), [9]),
    "no_newline.py": (BAD.rstrip(), [9]),
    "tabs.py": (BAD.replace(b"    ", b"\t"), [9]),
    "tabs_and_blanks.py": (changed(b"    return", b"\treturn"), "inconsistent use of tabs"),
    "nul.py": (changed(b"mesh = ", b"m\0sh = "), "Line 4 contains a NUL byte"),
    "latin_1.py": (b"# coding: latin-1\nx = '\xe4\xff'\n" + BAD, [11]),
    "wrong_cookie.py": (b"# coding: utf-8\nx = '\xe4\xff'\n" + BAD, "Line 2 is not utf-8 (byte 0xe4)"),
    "no_cookie.py": (b"\n\nx = '\xe4\xff'\n" + BAD, "Line 3 is not utf-8"),
    "utf_16.py": (BAD.decode().encode("utf-16"), "NUL byte"),
    "undefined.py": (b"# coding: undefined\n" + BAD, "Cannot be read as undefined"),
    "punycode.py": (b"# coding: punycode\n" + BAD + b"-" + b"a" * 1_000_000, "names punycode"),
    "zip.py": (b"# coding: bz2\n" + BAD, "bz2"),
    "empty.py": (b"", []),
    "newline.py": (b"\n", []),
    "long_line.py": (b"x = '" + b"y" * 1_000_000 + b"'\n" + BAD, [10]),
    "far_out.py": (changed(CALL, b"    y = '" + b"y" * 1_000_000 + b"'; " + CALL.lstrip()), [9]),
    "long_list.py": (changed(CALL, b"    y = [" + b"0, " * 50_000 + b"]; " + CALL.lstrip()), [9]),
    "brackets.py": (BAD + b"x = " + b"(" * 3000 + b"1" + b")" * 3000 + b"\n", "too many nested parentheses"),
    "blocks.py": (
        BAD + b"".join(b" " * depth + b"if x:\n" for depth in range(3000)) + b" " * 3000 + b"x\n",
        "too many levels of indentation",
    ),
    "minuses.py": (BAD + b"x = " + b"-" * 100_000 + b"1\n", "nested too deeply"),
    "sum.py": (BAD + b"x = 1" + b" + 1" * 3000 + b"\n", [9]),
    "attributes.py": (BAD + b"x = y" + b".a" * 3000 + b"\n", [9]),
    "calls.py": (BAD + b"x = f" + b"()" * 3000 + b"\n", [9]),
    "elifs.py": (BAD + b"if x: pass\n" + b"elif x: pass\n" * 2500, [9]),
    "script.py/inside.py": (BAD, [9]),
    "a/b.py/c.py/d.py": (BAD, [9]),
    "-.py": (BAD, [9]),
    "--help.py": (BAD, [9]),
    "na me.py": (BAD, [9]),
    "ä漢🐍.py": (BAD, [9]),
}


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("odd")
    (root / "setup.cfg").touch()
    for name, (data, _) in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


@pytest.fixture(scope="module")
def told(odd: Path) -> dict[str, object]:
    """Return the output of one run of the command on all of them."""
    done = subprocess.run(
        [sys.executable, "-m", "shardlint", "check", "--select=SL201,SL001", "--output-format=json", "."],
        cwd=odd,
        capture_output=True,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (1, b"")
    return json.loads(done.stdout)


@of_one_run
def test_none_is_lost(told: dict[str, object]) -> None:
    assert told["files"] + len(told["skipped"]) == len(FILES)  # type: ignore[operator, arg-type]


@of_one_run
@pytest.mark.parametrize("name", FILES)
def test_an_odd_file(told: dict[str, object], name: str) -> None:
    expected = FILES[name][1]
    findings = [finding for finding in told["findings"] if finding["path"] == name]  # type: ignore[attr-defined]
    if isinstance(expected, str):
        (finding,) = findings
        assert finding["code"] == "SL001"
        assert expected in finding["message"]
        assert name in [skipped["path"] for skipped in told["skipped"]]  # type: ignore[attr-defined]
    else:
        assert [(finding["code"], finding["line"]) for finding in findings] == [
            ("SL201", line) for line in expected
        ]


@pytest.fixture(scope="module")
def after_fix(odd: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of them all after one run of the fix command."""
    root = tmp_path_factory.mktemp("fixed") / "odd"
    shutil.copytree(odd, root)
    done = subprocess.run(
        [sys.executable, "-m", "shardlint", "fix", "--unsafe-fixes", "--select=SL201", "."],
        cwd=root,
        capture_output=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return root


@of_one_run
@pytest.mark.parametrize("name", FILES)
def test_an_odd_file_is_fixed_in_its_own_way_or_left(after_fix: Path, name: str) -> None:
    data, lines = FILES[name]
    fixed = data.replace(b"jax.device_put(x, ", b"jax.lax.with_sharding_constraint(x, ")
    assert (after_fix / name).read_bytes() == (fixed if isinstance(lines, list) else data)


@of_one_run
def test_a_fix_leaves_nothing_beside_the_files(after_fix: Path) -> None:
    files = {path.relative_to(after_fix).as_posix() for path in after_fix.rglob("*") if path.is_file()}
    assert {name for name in files if not name.startswith(".shardlint_cache/")} == {*FILES, "setup.cfg"}


# the file system


@posix
def test_loops_pipes_and_devices_are_passed_by(write: Write, start: Start) -> None:
    root = write({"a.py": BAD, "folder/b.py": BAD})
    (root / "loop.py").symlink_to("loop.py")
    (root / "dangling.py").symlink_to("nothing.py")
    (root / "again").symlink_to(".")
    (root / "folder" / "up").symlink_to("..")
    (root / "zero.py").symlink_to("/dev/zero")
    (root / "link.py").symlink_to("a.py")
    os.mkfifo(root / "pipe.py")
    os.mkfifo(root / "folder" / ".gitignore")
    done = start("check", "--select=SL201", "--output-format=json", ".", cwd=root)
    assert (done.returncode, done.stderr) == (1, b"")
    found = json.loads(done.stdout)
    assert [finding["path"] for finding in found["findings"]] == ["a.py", "folder/b.py", "link.py"]
    assert (found["files"], found["skipped"]) == (3, [])


@posix
def test_a_named_device_is_refused(write: Write, start: Start) -> None:
    root = write({"a.py": BAD})
    (root / "zero.py").symlink_to("/dev/zero")
    done = start("check", "--select=SL201", "--output-format=concise", "a.py", "zero.py", "/dev/zero", cwd=root)
    assert done.returncode == 2
    assert b"a.py:9:9: SL201" in done.stdout
    assert (done.stdout + done.stderr).count(b"it is a pipe or a device") == 2


@pytest.mark.parametrize(("name", "size"), [("a.py", MAX_BYTES + 1), ("a.ipynb", NOTEBOOK_BYTES + 1)])
def test_a_file_above_its_limit_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, size: int
) -> None:
    with (tmp_path / name).open("wb") as file:
        file.truncate(size)

    def read(*_: object) -> bytes:
        raise AssertionError("it is read")

    monkeypatch.setattr("os.read", read)
    with pytest.raises(Unreadable, match=f"the file has {size:,} bytes"):
        read_bytes(tmp_path / name)


def test_an_answer_does_not_depend_on_the_size_of_other_files(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write({"a.py": BAD, **{f"m{number}.py": "x = 1\n" * 50 for number in range(3)}})
    for name, size in (("big.ipynb", 600_000_000), ("big.py", 500_000_000)):
        with (root / name).open("wb") as file:
            file.truncate(size)
    options = Options(select=("SL201",))
    for limit in (project._INDEX_BYTES, 100):
        monkeypatch.setattr(project, "_INDEX_BYTES", limit)
        report = check_in_process([root / "a.py"], options)
        assert [finding.rule.code for file in report.reports for finding in file.findings] == ["SL201"]


@pytest.mark.skipif(sys.platform != "linux", reason="a file that fails while it is read")
def test_a_file_that_fails_while_it_is_read_is_told(write: Write, start: Start) -> None:
    root = write({"a.py": BAD})
    (root / "memory.py").symlink_to("/proc/self/mem")
    done = start("check", "--select=SL201,SL001", "--output-format=concise", ".", cwd=root)
    assert done.returncode == 1
    first, second, *_ = done.stdout.decode().splitlines()
    assert first.startswith("a.py:9:9: SL201")
    assert second.startswith("memory.py:1:1: SL001") and "Input/output error" in second


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read all")
def test_what_may_not_be_read_is_told(write: Write, start: Start) -> None:
    root = write({"a.py": BAD, "secret.py": BAD, "shut/b.py": BAD})
    (root / "secret.py").chmod(0)
    (root / "shut").chmod(0)
    try:
        done = start("check", "--select=SL201,SL001", "--output-format=concise", ".", cwd=root)
    finally:
        (root / "shut").chmod(stat.S_IRWXU)
    assert done.returncode == 1
    assert b"secret.py:1:1: SL001" in done.stdout and b"Permission denied" in done.stdout
    assert b"a.py:9:9: SL201" in done.stdout


def test_a_name_that_no_file_can_have(write: Write, start: Start) -> None:
    long = "a" * 5000
    imports = f"import jax, {long}\nfrom .{long} import jit\n"
    root = write({"a.py": f"{imports}@jit\ndef f(x):\n    return {long}.device_put(jax.device_put(x))\n"})
    ran = start("check", "--select=SL2", "--pedantic", ".", cwd=root)
    assert (ran.returncode, ran.stderr) == (0, b""), ran.stdout
    for command in ("check", "fix", "verify", "explain"):
        ran = start(command, f"{long}:1" if command == "explain" else long, cwd=root)
        assert ran.returncode == 2 and b"please report" not in ran.stderr, ran.stderr[-500:]


def test_files_change_vanish_and_come_while_they_are_checked(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write({f"m{number}.py": BAD for number in range(6)})
    names = sorted(path.name for path in root.glob("m*.py"))
    real = Checker.check_file

    def meddling(self: Checker, path: Path, data: bytes | None = None) -> object:
        if path.name == "m1.py":  # found, but not yet read
            (root / "m2.py").unlink()
            (root / "m3.py").write_bytes(b"x = (\n" + BAD)
            (root / "m4.py").unlink()
            (root / "m4.py").mkdir()
            (root / "m9.py").write_bytes(BAD)
        return real(self, path, data)

    monkeypatch.setattr(Checker, "check_file", meddling)
    report = check_in_process([root], Options(select=("SL201", "SL001")))
    assert report.files == len(names) == 6
    assert {path.name: reason for path, reason in report.skipped if path.name != "m3.py"} == {
        "m2.py": "no such file",
        "m4.py": "is a directory, not a file",
    }
    codes = {file.path.name: [finding.rule.code for finding in file.findings] for file in report.reports}
    told, broken = ["SL201"], ["SL001"]
    assert codes == {
        "m0.py": told, "m1.py": told, "m2.py": broken, "m3.py": broken, "m4.py": broken, "m5.py": told
    }  # fmt: skip


def test_many_folders_inside_each_other(write: Write, start: Start) -> None:
    root = write({"/".join(["d"] * 500) + "/m.py": BAD})
    done = start("check", "--select=SL201", "--output-format=json", ".", cwd=root)
    assert done.returncode == 1
    assert len(json.loads(done.stdout)["findings"]) == 1


@pytest.mark.longer
def test_two_runs_at_once_disturb_nobody(write: Write) -> None:
    root = write({f"m{number}.py": BAD for number in range(60)})
    command = [sys.executable, "-m", "shardlint"]
    chosen = ["--select=SL201", "--unsafe-fixes", "."]
    checks = [[*command, "check", "--select=SL201", "--output-format=json", "."]] * 2
    running = [
        subprocess.Popen(line, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for line in checks
    ]
    one, two = (process.communicate(timeout=120) for process in running)
    assert one == two
    assert len(json.loads(one[0])["findings"]) == 60
    running = [
        subprocess.Popen([*command, "fix", *chosen], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    said = [process.communicate(timeout=120) for process in running]
    for process, (_, errors) in zip(running, said, strict=True):
        # One may come while the other writes: then it says so, and loses nothing.
        assert process.returncode in (0, 2), errors
        assert all(b"the file changed in the meantime" in line for line in errors.splitlines())
    for path in root.glob("m*.py"):
        assert path.read_bytes() == changed(b"jax.device_put", b"jax.lax.with_sharding_constraint")
    assert not list(root.glob(".*.shardlint"))


# settings and pins that are broken or of somebody who means ill


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("pyproject.toml", b"[tool.shardlint]\nselect = [", "not valid TOML"),
        ("pyproject.toml", b"[tool.shardlint]\n\xff = 1", "not valid TOML"),
        ("pyproject.toml", b"[tool.shardlint]\nselect = " + b"[" * 100_000, "nested too deeply"),
        ("shardlint.toml", b"pedantic = " + b"9" * 10_000, "4300 digits"),
        ("shardlint.toml", b"\xef\xbb\xbfpedantic = true", "not valid TOML"),
        ("shardlint.toml", b"a = 1\na = 2", "not valid TOML"),
    ],
)  # fmt: skip
def test_broken_settings_end_the_run_in_one_line(
    write: Write, start: Start, name: str, data: bytes, says: str
) -> None:
    root = write({"a.py": BAD, name: data})
    done = start("check", ".", cwd=root)
    assert (done.returncode, done.stdout) == (2, b"")
    (line,) = done.stderr.decode().splitlines()
    assert name in line and says in line


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("pyproject.toml", b"[project\ndependencies = 3"),
        ("pyproject.toml", b"x = " + b"[" * 100_000),
        ("pyproject.toml", b'[tool.poetry.dependencies]\njax = "^' + b"9" * 6000 + b'"'),
        ("uv.lock", b"x = " + b"[" * 100_000),
        ("uv.lock", b'[[package]]\nname = "jax"\nversion = "' + b"9" * 6000 + b'"'),
        ("requirements.txt", b"jax==" + b"9" * 6000),
        ("requirements.txt", b"jax<" + b"9" * 6000),
        ("requirements.txt", b"jax[" * 300_000),
        ("setup.cfg", b"\n" * 300_000),
        ("setup.py", b'"jax' * 100_000),
        ("requirements.txt", b"jax >=0.4" + b" " * 200_000 + b"x"),
        ("uv.lock", b'[[package]]\nname = ["jax"]\nversion = "1"'),
    ],
)  # fmt: skip
def test_broken_pins_tell_nothing_and_stop_nothing(
    write: Write, start: Start, name: str, data: bytes
) -> None:
    root = write({"a.py": BAD, name: data})
    done = start("check", "--select=SL201", "--output-format=concise", "a.py", cwd=root)
    assert (done.returncode, done.stderr) == (1, b"")
    assert done.stdout.startswith(b"a.py:9:9: SL201")


@posix
@pytest.mark.parametrize("name", ["requirements.txt", "uv.lock", "pyproject.toml", "setup.cfg", "setup.py"])
def test_pins_that_lead_to_a_device_are_not_read(write: Write, start: Start, name: str) -> None:
    root = write({"a.py": BAD})
    (root / name).unlink(missing_ok=True)
    (root / name).symlink_to("/dev/zero")
    done = start("check", "--select=SL201", "--output-format=concise", "a.py", cwd=root)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.parametrize(
    ("pattern", "name", "ignored"),
    [
        ("*a" * 14 + "b", "a" * 120 + ".py", False),
        ("*a" * 14 + "*", "a" * 120 + ".py", True),
        ("*a*b*c*.py", "xaxbxcx.py", True),
        ("*a*b*c*.py", "xaxcxbx.py", False),
        ("*ab*ab*c", "aab/abab_c.py", False),
        ("*" * 21 + "a", "b" * 37 + ".py", False),
        ("*?" * 7 + "b", "a" * 200 + ".py", False),
        ("*[ab]" * 6 + "*c", "a" * 200 + ".py", False),
        ("**/a/" * 12 + "b.py", "a/" * 30 + "c.py", False),
        ("**/a/" * 12 + "c.py", "a/" * 30 + "c.py", True),
        ("**/a*/" * 3 + "c.py", "ab/d/a/aa/c.py", True),
        ("**/a*/" * 3 + "c.py", "ab/d/a/ba/c.py", False),
        ("x/**/a/b/**/c.py", "x/a/a/b/c.py", True),
        ("x/**/a/**/b/**/c.py", "x/ab/b/c.py", False),
        ("*?[!a]*[]a]*b*.py", "xx]ab.py", True),
        ("*?[!a]*[]a]*b*.py", "xaab.py", False),
        ("*ab*ab*c.py", "aababxabc.py", True),
        ("*a?*b*c*", "aab_c.py", True),
        ("d*/*a*a*b.py", "dir/aab.py", True),
        ("d*/*a*a*b.py", "dir/ab.py", False),
    ],
)
def test_patterns_with_many_stars_mean_the_same_and_end(
    write: Write, pattern: str, name: str, ignored: bool
) -> None:
    root = write({name: BAD})
    assert bool(find_python_files([root], (pattern,), root).file_paths) is not ignored


@pytest.mark.parametrize("where", [".gitignore", "--exclude"])
def test_a_pattern_with_a_range_that_is_none_names_nothing(write: Write, start: Start, where: str) -> None:
    root = write({"a.py": BAD, "b.py": BAD, ".gitignore": "[z-a]\nb.py\n" if where == ".gitignore" else ""})
    options = [] if where == ".gitignore" else ["--exclude=[z-a]", "--exclude=b.py"]
    done = start("check", "--select=SL201", "--output-format=concise", *options, ".", cwd=root)
    assert (done.returncode, done.stderr) == (1, b"")
    assert done.stdout.startswith(b"a.py:9:9: SL201") and b" 1 file." in done.stdout


def test_codecs_with_errors_of_their_own_are_told() -> None:
    with pytest.raises(Unreadable, match="cannot be read as undefined"):
        decode_file(Path("x.py"), b"# coding: undefined\n")


# what the fuzz found


def test_a_comment_in_a_file_that_is_not_python_is_left(write: Write, start: Start) -> None:
    """Nothing triggered a rule, so only the comments were read; a fix of the unused one made other text of what is broken."""
    text = b"global x, \\\n\\\n\t# shardlint: ignore[SL201]\n\\\nA\n"
    root = write({"a.py": text})
    done = start("fix", ".", cwd=root)
    assert b"a.py: not fixed: Python" in done.stderr
    assert (root / "a.py").read_bytes() == text


def test_names_in_a_long_run_of_words_are_looked_for_once() -> None:
    """Each pair of names in a string was once tested for an import that a fix no longer needs."""
    words = "shard_map " * 60_000
    assert _dropped(f"from a import shard_map\n'''\n\"{words}'\n'''\n")


@pytest.mark.parametrize(
    ("line", "goes"),
    [
        ('__all__ = ["shard_map"]', False),
        ("__all__ = ['x', 'shard_map']", False),
        ("f: 'list[a.shard_map | None]'", False),
        ("# don't say 'shard_map'", True),
        ("x = 'shard_mapped'", True),
        ('def f():\n    """Pads a mask before entering shard_map."""', True),
        ("x = 'shard_map: not a name alone'", True),
    ],
)
def test_an_import_that_a_string_may_name_stays(line: str, goes: bool) -> None:
    assert _dropped(f"from a import shard_map\n{line}\n") is goes


def _dropped(text: str) -> bool:
    facts = read_facts(Source(Path("x.py"), text), Path("x.py"))
    return bool(drop_unused_imports(facts, {"shard_map"}))


def test_fixes_that_are_right_alone_are_made_one_after_the_other(write: Write, start: Start) -> None:
    line = "        jax.config.update('jax_array', True)\n"
    root = write({"x.py": f"import jax\ndef f(x):\n    if x:\n{line}{line}{line}    return jax.jit(x)\n"})
    ran = start("fix", "--select=SL901", "--unsafe-fixes", ".", cwd=root)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert (
        root / "x.py"
    ).read_text() == "import jax\ndef f(x):\n    if x:\n        pass\n    return jax.jit(x)\n"


@pytest.mark.skipif(sys.platform != "linux", reason="names that are not UTF-8")
def test_a_name_that_is_not_utf_8_is_one_like_another(write: Write, start: Start) -> None:
    root = write({"a\udcff.py": BAD})
    name = "a\udcff.py"
    for command in (["check", "."], ["check", f"--stdin-filename={name}", "-"], ["fix", "--diff", "."]):
        done = start(*command, "--select=SL201", cwd=root, input=BAD)
        assert (done.returncode, b"failed" in done.stdout + done.stderr) == (1, False)
    done = start("fix", "--select=SL201", "--unsafe-fixes", ".", cwd=root)
    assert done.returncode == 0
    assert (root / name).read_bytes() == changed(b"jax.device_put", b"jax.lax.with_sharding_constraint")


@posix
def test_a_link_to_what_is_excluded_is_excluded(write: Write, start: Start) -> None:
    root = write({"vendored/r.py": BAD, "a.py": "x = 1\n", "shardlint.toml": 'exclude = ["vendored/"]\n'})
    (root / "l.py").symlink_to("vendored/r.py")
    done = start("fix", "--unsafe-fixes", ".", cwd=root)
    assert done.returncode == 0
    assert (root / "vendored/r.py").read_bytes() == BAD


@posix
def test_where_the_current_folder_is_gone_absolute_paths_are_checked(write: Write) -> None:
    root = write({"a.py": BAD})
    code = "import os; os.rmdir(os.getcwd()); from shardlint.cli.main import start; start()"

    def ran(*arguments: object) -> subprocess.CompletedProcess[bytes]:
        (root / "gone").mkdir(exist_ok=True)
        command = [sys.executable, "-c", code, *map(str, arguments)]
        return subprocess.run(command, cwd=root / "gone", input=BAD, capture_output=True, timeout=120)

    for arguments in ([root / "a.py"], ["--stdin-filename", root / "a.py", "-"]):
        done = ran("check", "--select=SL201", "--output-format=concise", *arguments)
        assert (done.returncode, done.stderr) == (1, b"")
        assert b"a.py:9:9: SL201" in done.stdout
    for command in (["check", "."], ["check", "a.py"], ["check", "-"], ["fix", "."]):
        done = ran(*command)
        assert (done.returncode, done.stdout) == (2, b"")
        assert done.stderr.startswith(b"shardlint: the current folder was deleted")
    done = ran("check", "--exclude=b", root / "a.py")
    assert (done.returncode, done.stdout) == (2, b"")


@posix
@pytest.mark.parametrize("command", [["check", "loop.py"], ["check", "--stdin-filename=loop.py", "-"]])
def test_a_named_link_in_a_circle_ends_no_run(write: Write, start: Start, command: list[str]) -> None:
    root = write({"a.py": BAD})
    (root / "loop.py").symlink_to("loop.py")
    done = start(*command, cwd=root, input=BAD)
    assert b"Traceback" not in done.stderr
    assert done.returncode == (1 if "-" in command else 2)


@posix
def test_a_device_that_is_named_is_read_to_the_limit(start: Start) -> None:
    done = start("check", "/dev/zero")
    assert done.returncode == 2 and done.stderr == b""


@posix
def test_a_folder_that_cannot_be_listed_is_told(write: Write, start: Start) -> None:
    root = write({"a.py": BAD})
    here = os.open(root, os.O_RDONLY)
    for _ in range(25):  # a path of more than 4,096 bytes
        os.mkdir("d" * 200, dir_fd=here)
        inner = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    try:
        done = start("check", "--select=SL201", ".", cwd=root)
    finally:
        shutil.rmtree(root / ("d" * 200))
    assert done.returncode == 1
    assert b"d: not checked: the folder cannot be listed" in done.stdout


def test_a_gitignore_is_read_as_git_reads_it(write: Write) -> None:
    root = write({"a.py": "", "b.py": "", "c.py": "", "d.py": ""})
    (root / ".gitignore").write_bytes(codecs.BOM_UTF8 + "a.py\r\nx\x0bb.py\nx\u2028c.py\nd.py".encode())
    assert [path.name for path in find_python_files([root], (), root).file_paths] == ["b.py", "c.py"]


@posix
@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="extended attributes of Linux")
def test_a_fix_keeps_links_and_extended_attributes(write: Write, start: Start) -> None:
    root = write({"linked.py": BAD, "noted.py": BAD, "both.py": BAD})
    names = ("linked.py", "both.py")
    for name in names:
        (root / f"{name}.txt").hardlink_to(root / name)
    try:
        for name in ("noted.py", "both.py"):
            os.setxattr(root / name, "user.note", b"x")
    except OSError:
        pytest.skip("no extended attributes here")
    (root / "linked.py").chmod(0o640)
    ran = start("fix", "--unsafe-fixes", "--select=SL201", ".", cwd=root)
    assert ran.returncode == 0, ran.stderr
    fixed = changed(b"jax.device_put", b"jax.lax.with_sharding_constraint")
    for name in names:
        assert (root / name).samefile(root / f"{name}.txt")
        assert (root / f"{name}.txt").read_bytes() == fixed
    for name in ("noted.py", "both.py"):
        assert os.getxattr(root / name, "user.note") == b"x"
    assert stat.S_IMODE((root / "linked.py").stat().st_mode) == 0o640
    assert sorted(path.name for path in root.iterdir() if "shardlint" in path.name) == []


HALVES = {
    "a.ipynb": b'{"cells": [{"cell_type": "code", "source": ["import jax\\n", "s = \'\\ud83d\'"]}]}',
    "b.ipynb": b'{"cells": [{"cell_type": "code", "source": "# \\udc00"}]}',
    "c.py": b"# coding: utf-7\ns = '+2D0-'\n",
    "d.py": b"# coding: raw_unicode_escape\ns = '\\ud83d'\n",
}


@pytest.mark.parametrize("name", HALVES)
def test_half_a_character_is_told_and_the_others_are_checked(write: Write, start: Start, name: str) -> None:
    root = write({"m.py": BAD, name: HALVES[name]})
    for command in (["check", "--output-format=concise"], ["fix", "--diff", "--unsafe-fixes"]):
        ran = start(*command, "--select=SL201,SL001", ".", cwd=root)
        assert ran.returncode == 1 and b"Traceback" not in ran.stderr, ran.stderr
        assert b"contains half of a character" in ran.stdout + ran.stderr
        assert b"m.py" in ran.stdout
    assert start("check", name, cwd=root).returncode == 2
