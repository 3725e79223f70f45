"""What an answer rests on is known of whoever asks for it, also after most has been forgotten."""

from __future__ import annotations

from shardlint.program.needs import Needs, Remembered


def asked(needs: Needs, answers: Remembered[str, int], key: str, *rests_on: str) -> set[str]:
    """The answer's needs, as somebody sees them who asks for nothing else."""

    def make() -> int:
        for one in rests_on:
            needs.note(("word", one))
        return 1

    before = needs.begin()
    answers.get(key, make)
    return {word for _, word in needs.named(needs.end(before))}  # type: ignore[misc]


def test_an_answer_that_is_known_needs_what_it_needed() -> None:
    needs = Needs()
    answers: Remembered[str, int] = Remembered(needs)
    assert asked(needs, answers, "a", "x", "y") == {"x", "y"}
    assert asked(needs, answers, "a") == {"x", "y"}
    assert asked(needs, answers, "b", "z") == {"z"}


def test_what_is_kept_needs_the_same_under_other_numbers() -> None:
    needs = Needs()
    kept: Remembered[str, int] = Remembered(needs)
    for number in range(100):
        asked(needs, Remembered(needs), "passing", str(number))
    assert asked(needs, kept, "a", "x", "99") == {"x", "99"}
    needs.note(("word", "now"))
    needs.renumber(kept)
    assert ("word", "now") in needs.named(needs.now)
    assert asked(needs, kept, "a") == {"x", "99"}
    assert asked(needs, kept, "b", "5") == {"5"}
    assert len(needs.bits) < 110
    before = len(needs.bits)
    needs.now = 0
    needs.renumber(kept)
    assert len(needs.bits) <= 3 < before


def test_an_answer_that_comes_round_to_itself_needs_all_of_the_round() -> None:
    needs = Needs()
    answers: Remembered[str, int] = Remembered(needs)

    def make() -> int:
        answers.begin("a", 0)
        needs.note(("word", "before"))
        answers.get("through a", lambda: answers["a"])
        needs.note(("word", "after"))
        return 1

    answers.make("a", make)
    for _ in range(2):
        assert asked(needs, answers, "a") == {"before", "after"}
        assert asked(needs, answers, "through a") == {"before", "after"}
        needs.renumber(answers)
