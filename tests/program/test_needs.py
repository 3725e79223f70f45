"""Tests of the recorded dependencies of answers, also after most answers were dropped."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from shardlint.model.bits import Need
from shardlint.model.needs import Memo, Needs


def asked(needs: Needs, answers: Memo[str, int], key: str, *rests_on: str) -> set[str]:
    """The answer's needs, as somebody sees them who asks for nothing else."""

    def make() -> int:
        for one in rests_on:
            needs.note_need(("word", one))
        return 1

    before = needs.begin_answer()
    answers.get_or_make(key, make)
    return {word for _, word in needs.named_needs([needs.end_answer(before)])}  # type: ignore[misc]


def test_an_answer_that_is_known_needs_what_it_needed() -> None:
    needs = Needs()
    answers: Memo[str, int] = Memo(needs)
    assert asked(needs, answers, "a", "x", "y") == {"x", "y"}
    assert asked(needs, answers, "a") == {"x", "y"}
    assert asked(needs, answers, "b", "z") == {"z"}


def test_what_is_kept_needs_the_same_under_other_numbers() -> None:
    needs = Needs()
    kept: Memo[str, int] = Memo(needs)
    for number in range(100):
        asked(needs, Memo(needs), "passing", str(number))
    assert asked(needs, kept, "a", "x", "99") == {"x", "99"}
    needs.note_need(("word", "now"))
    needs.keep_only(kept)
    assert ("word", "now") in needs.named_needs(needs.now)
    assert asked(needs, kept, "a") == {"x", "99"}
    assert asked(needs, kept, "b", "5") == {"5"}
    assert len(needs._numbers) < 110
    before = len(needs._numbers)
    needs.begin_answer()
    needs.keep_only(kept)
    assert len(needs._numbers) <= 3 < before


def test_an_answer_that_comes_round_to_itself_needs_all_of_the_round() -> None:
    needs = Needs()
    answers: Memo[str, int] = Memo(needs)

    def make() -> int:
        answers.begin_answer("a", 0)
        needs.note_need(("word", "before"))
        answers.get_or_make("through a", lambda: answers["a"])
        needs.note_need(("word", "after"))
        return 1

    answers.make_answer("a", make)
    for _ in range(2):
        assert asked(needs, answers, "a") == {"before", "after"}
        assert asked(needs, answers, "through a") == {"before", "after"}
        needs.keep_only(answers)


Graph = dict[int, tuple[set[Path], list[int]]]
"""For each question: the files that are read for it, and the questions it asks."""


def graph(seed: int) -> Graph:
    chance = Random(seed)
    count = chance.choice((3, 20, 60))
    files = [Path(f"m{number}.py") for number in range(chance.choice((1, 5, 100)))]
    return {
        key: (
            set(chance.choices(files, k=chance.choice((0, 0, 1, 3)))),
            chance.choices(range(count), k=chance.choice((0, 1, 2, 5))),
        )
        for key in range(count)
    }


def reached(graph: Graph, key: int) -> set[Need]:
    """The files of a question and of all it comes to ask."""
    todo, seen = [key], {key}
    found: set[Need] = set()
    while todo:
        files, asked = graph[todo.pop()]
        found |= files
        todo += [other for other in asked if other not in seen]
        seen.update(asked)
    return found


def ask(graph: Graph, answers: Memo[int, int], key: int) -> int:
    """The answer to a question, which may come round to itself."""

    def answer() -> int:
        files, asked = graph[key]
        for file in sorted(files):
            answers.needs.note_need(file)
        for other in asked:
            ask(graph, answers, other)
        return key

    if key not in answers:
        answers.begin_answer(key, key)
        return answers.make_answer(key, answer)
    return answers[key]


@pytest.mark.parametrize("seed", range(60))
def test_an_answer_needs_what_it_came_to_ask(seed: int) -> None:
    made = graph(seed)
    needs = Needs()
    answers: Memo[int, int] = Memo(needs)
    for key in made:  # later ones are remembered from earlier ones
        needs.begin_answer()
        ask(made, answers, key)
        assert set(needs.named_needs(needs.now)) == reached(made, key)
    assert {key: set(named) for key, _, named in answers.named_answers()} == {key: reached(made, key) for key in made}

    needs.keep_only(answers)
    needs.begin_answer()
    assert {key: set(named) for key, _, named in answers.named_answers()} == {key: reached(made, key) for key in made}


def test_needs_are_named_in_the_order_in_which_they_were_met() -> None:
    needs = Needs()
    needs.note_need(Path("b.py"))
    before = needs.begin_answer()
    needs.note_need(Path("c.py"))
    needs.note_need(Path("a.py"))
    inner = needs.end_answer(before)
    assert needs.named_needs((inner,)) == (Path("c.py"), Path("a.py"))
    assert needs.named_needs(needs.now) == (Path("b.py"), Path("c.py"), Path("a.py"))


def test_a_chain_of_answers_takes_room_for_its_links() -> None:
    needs = Needs()
    count, last = 5_000, 0
    for number in range(count):  # each rests on a file of its own and on all before it
        before = needs.begin_answer()
        needs.take_needs(last)
        needs.note_need(Path(f"m{number}.py"))
        last = needs.end_answer(before)
    assert len(needs.named_needs((last,))) == count
    assert sum(map(len, needs._parts.values())) < 3 * count


def test_the_same_needs_are_the_same_set() -> None:
    needs = Needs()
    files = [Path(f"m{number}.py") for number in range(40)]
    found = set()
    for size in (1, 3, 12, 13, 40):
        for order in (files[:size], files[:size][::-1]):
            before = needs.begin_answer()
            for file in order:
                needs.note_need(file)
            found.add(needs.end_answer(before))
    assert len(found) == 5

    before = needs.begin_answer()  # a large set and a part of it are that set
    needs.take_needs(max(found))
    needs.note_need(files[7])
    assert needs.end_answer(before) == max(found)


def test_what_rests_on_what_is_gone() -> None:
    needs = Needs()
    lent = needs.lent_set_number(frozenset({Path("far.py"), ("word", "far")}))
    before = needs.begin_answer()
    needs.note_need(Path("near.py"))
    needs.take_needs(lent)
    through = needs.end_answer(before)
    before = needs.begin_answer()
    needs.take_needs(through)
    needs.note_need(Path("own.py"))
    outer = needs.end_answer(before)
    alone = needs.number_of_set([Path("own.py")])
    for name in ("far.py", "near.py", "own.py"):
        rests = needs.make_rests_on({number for number, _ in needs.needs_by_key(name)})
        assert [rests(one) for one in (outer, through, lent, alone)] == [
            True, name != "own.py", name == "far.py", name == "own.py"
        ], name  # fmt: skip
    assert not needs.make_rests_on(set())(outer)


def test_a_round_of_answers_rests_on_what_any_of_it_needs() -> None:
    needs, answers = Needs(), Memo[str, int](Needs())
    answers.needs = needs

    def first() -> int:
        needs.note_need(Path("first.py"))
        return answers.get_or_make("second", second)

    def second() -> int:
        needs.note_need(Path("second.py"))
        return answers["first"]

    answers.begin_answer("first", 0)
    answers.make_answer("first", first)
    kept = Memo[str, int](needs)
    kept.inherit_answers(answers, needs.make_rests_on({number for number, _ in needs.needs_by_key("first.py")}))
    assert "first" not in kept and "second" not in kept
    kept.inherit_answers(answers, needs.make_rests_on({number for number, _ in needs.needs_by_key("other.py")}))
    assert "first" in kept and "second" in kept
