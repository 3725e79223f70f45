"""The table of public names: as it is kept, and as the screen asks of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from shardlint_rules.upgrade import public_names

from shardlint.source.screen import Texts

KNOWN = b"names:jnp=abs add;jax.lax=abs psum;jax.shard_map="


def test_the_table_is_packed_as_it_was_shown() -> None:
    shown = list(public_names.unpack_table())
    assert public_names.pack_table(shown) == public_names.PATH.read_text("utf-8")


def test_a_name_is_of_the_releases_that_showed_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shown = [
        public_names.ReleaseNames("jax", "0.4.30", {"jax": ["f()", "lax", "old"], "jax.lax": ["psum()"]}),
        public_names.ReleaseNames("jax", "0.5.3", {"jax": ["f()", "old"], "jax.more": ["*"]}),
        public_names.ReleaseNames("jax", "0.12", {"jax": ["f()", "new"], "jax.lax": ["psum()"]}),
    ]
    path = tmp_path / "names.json"
    path.write_text(public_names.pack_table(shown), "utf-8")
    monkeypatch.setattr(public_names, "PATH", path)
    public_names.read_libraries.cache_clear()
    try:
        jax = public_names.read_libraries()["jax"]
        assert jax.releases_with_name("jax", "old") == {0, 1}
        assert jax.releases_with_name("jax", "f") == {0, 1, 2}
        assert jax.releases_with_name("jax.lax", "psum") == {0, 2}
        assert jax.releases_with_name("jax.lax", "gone") == frozenset()
        assert jax.releases_with_name("jax.more", "anything") == {1}
        assert jax.is_function("jax", "f", 1)
        assert not jax.is_function("jax", "old", 1)
        assert list(public_names.unpack_table())[:3] == shown
    finally:
        public_names.read_libraries.cache_clear()


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        (b"x = jnp.abs(jnp.add(1, 2))", False),
        (b"x = jnp.abs(jnp.addd(1, 2))", True),
        (b"jax.lax.psum", False),
        (b"jax.lax.psumm", True),
        (b"from jax.lax import abs, psum", False),
        (b"from jax.lax import abs as a, psum as p  # and more", False),
        (b"from jax.lax import (\n    abs,  # one\n    psum,\n)", False),
        (b"from jax.lax import (\n    abs,\n    pmean,\n)", True),
        (b"from jax.lax import *", False),
        (b"from jax.shard_map import shard_map", True),
        (b"from other import psumm", False),
    ],
)
def test_what_the_screen_sees(text: bytes, asks: bool) -> None:
    assert Texts(text).imports_unknown_name(KNOWN) is asks
