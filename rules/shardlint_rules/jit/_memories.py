"""Does code move arrays between memories, of the host and of the devices?"""

from __future__ import annotations

from shardlint.rules_api.site import Site

WORDS = ("memory_kind", "pinned_host", "jax.memory", "memory.Space", "TransferToMemoryKind", "Space.")
"""What code says that moves arrays between memories, which is what device_put in jit is for."""
# The project has none of these words: nothing need be followed.
_SEARCHED = ("memory_kind", "with_memory_kind", "pinned_host", "memory", "Space", "TransferToMemoryKind")


def mentions_memory_kinds(site: Site) -> bool:
    """Return whether the code that may have placed an array at the site mentions memory kinds.

    That is in its own file, in those on the way to it, and in what runs together with one of these.
    """
    if any(map(site.file.contains_text, WORDS)):
        return True
    if not any(map(site.is_named_anywhere, _SEARCHED)):
        return False
    files = dict.fromkeys((site.file, *(step.place.file for step in site.region.reasons_inside_out)))
    near = dict.fromkeys(other for file in files for other in site.program.together(file))
    return any(file.contains_text(word) for file in near for word in WORDS)
