"""The files that everything is timed on: published packages at pinned versions, and three single files."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

# As much JAX as there is in wheels with Python in them: libraries, trainers, models, simulators.
PACKAGES = """
axlearn==0.0.1.post20240213000026 blackjax==1.7.1 brainpy==2.9.0 brax==0.14.2 chex==0.1.92 desc-opt==0.17.3
diffrax==0.7.2 distrax==0.1.9 dm-haiku==0.0.17 easydel==0.3.0 equinox==0.13.8 evosax==0.3.2 flax==0.12.12
google-tunix==0.1.7 gpjax==1.0.0 haliax==1.3 jax==0.12.0.1 jax-md==0.2.29 jaxley==0.14.0 jaxopt==0.8.5 keras==3.15.1
levanter==1.1 lineax==0.1.1 maxtext==0.2.5 mujoco-mjx==3.17.0 netket==3.23.0 neural-tangents==0.6.5 numpyro==0.22.0
optax==0.2.8 optimistix==0.1.0 orbax-checkpoint==0.12.8 ott-jax==0.6.0 paxml==1.4.0 penzai==0.2.5 praxis==1.4.0
tensorflow-probability==0.25.0 tinygp==0.3.1 torax==1.4.3 trax==1.4.1
""".split()

CLEAN = """\
import jax
import jax.numpy as jnp


@jax.jit
def area(radius: jax.Array) -> jax.Array:
    return jnp.pi * radius**2
"""
FINDING = """\
import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(jax.devices(), ("data",))


@jax.jit
def step(x):
    x = jax.device_put(x, NamedSharding(mesh, P("data")))
    return x * 2
"""
FIXABLE = """\
import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(jax.devices(), ("data",))


def place(x):
    return jax.device_put(x, NamedSharding(P("data"), mesh))
"""


@dataclass(frozen=True)
class Package:
    """One package of the corpus, unpacked."""

    name: str
    release: str
    folder: Path
    files: int
    lines: int
    jax_lines: int
    """Lines of the files in which `jax` stands."""
    size: int


def build_corpus(work: Path, pins: Sequence[str] = PACKAGES) -> list[Package]:
    """Download and unpack what is missing, take away what is not asked for, and count."""
    corpus = work / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for folder in corpus.iterdir():
        if folder.name not in (".git", *pins):
            shutil.rmtree(folder) if folder.is_dir() else folder.unlink()
    for pin in pins:
        if not (corpus / pin).is_dir():
            _unpack_wheel(_download_wheel(pin, work / "wheels" / pin), corpus / pin)
    # The repository's own .gitignore leaves .benchmark out; what stands above a .git is not asked.
    (corpus / ".git").mkdir(exist_ok=True)
    return [_count_lines(pin, corpus / pin) for pin in pins]


def load_package(work: Path, name: str) -> Package:
    """One of the packages, apart from the corpus."""
    (pin,) = (pin for pin in PACKAGES if pin.split("==")[0] == name)
    folder = work / "apart" / pin
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        _unpack_wheel(_download_wheel(pin, work / "wheels" / pin), folder)
    return _count_lines(pin, folder)


def _download_wheel(pin: str, folder: Path) -> Path:
    if not list(folder.glob("*.whl")):
        print(f"fetching {pin}", flush=True)
        options = ["--quiet", "--no-deps", "--only-binary", ":all:", "--disable-pip-version-check"]
        command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), pin]
        ended = subprocess.run(command, capture_output=True, text=True)
        if ended.returncode:
            raise SystemExit(f"{pin} cannot be fetched:\n{ended.stderr[-2000:]}")
    (wheel,) = folder.glob("*.whl")
    return wheel


def _unpack_wheel(wheel: Path, target: Path) -> None:
    new = target.with_name(f"{target.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    with zipfile.ZipFile(wheel) as archive:
        # Stubs are left out: not all of the tools read them.
        archive.extractall(new, [name for name in archive.namelist() if name.endswith(".py")])
    (new / "setup.cfg").touch()  # each is a project of its own
    new.rename(target)


def _count_lines(pin: str, folder: Path) -> Package:
    name, _, release = pin.partition("==")
    files = lines = jax_lines = size = 0
    for path in python_files(folder):
        text = path.read_bytes()
        count = text.count(b"\n")
        files, lines, size = files + 1, lines + count, size + len(text)
        if b"jax" in text:
            jax_lines += count
    return Package(name, release, folder, files, lines, jax_lines, size)


def python_files(folder: Path) -> Iterator[Path]:
    """The Python files below a folder."""
    return (path for path in folder.rglob("*.py") if path.is_file())


def select_packages(packages: Sequence[Package], names: Sequence[str]) -> list[Package]:
    """The packages with these names; all of them where none is there."""
    return [package for package in packages if package.name in names] or list(packages)


def files_holding(packages: Sequence[Package], word: bytes, size: int) -> list[Path]:
    """Files that hold a word: as many as make up `size` bytes, one of each package in turn."""
    files = [
        [path for path in sorted(python_files(package.folder)) if word in path.read_bytes()]
        for package in packages
    ]
    found: list[Path] = []
    for path in (path for turn in itertools.zip_longest(*files) for path in turn if path is not None):
        if size <= 0:
            break
        found.append(path)
        size -= path.stat().st_size
    return found


def build_single_files(work: Path) -> Path:
    """The folder with clean.py, finding.py and fixable.py."""
    folder = work / "one"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".git").mkdir(exist_ok=True)
    (folder / "setup.cfg").touch()
    for name, text in (("clean", CLEAN), ("finding", FINDING), ("fixable", FIXABLE)):
        (folder / f"{name}.py").write_text(text)
    return folder
