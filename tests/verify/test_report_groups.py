"""Failures of leaves that are alike are told in one line."""

from __future__ import annotations

from shardlint.verify.report import FAIL, Failure, Result, failure_texts, result_text


def leaf(name: str, expected: str = "P('model')", message: str = "", size: int | None = 4) -> Failure:
    return Failure(
        "sharding", message, f"params['{name}']", name, "f32[4]", expected, "one device", size, size and 8 * size
    )


def test_leaves_that_fail_alike_are_one_line_with_their_bytes_together() -> None:
    ((kind, text),) = failure_texts([leaf(name) for name in "abcde"])
    assert kind == "sharding"
    assert text == (
        "5 leaves  expected P('model')  got one device  20 B -> 160 B/device (8x): "
        "params['a'] f32[4], params['b'] f32[4], params['c'] f32[4], 2 more"
    )


def test_what_differs_stays_apart_and_in_order() -> None:
    found = [
        leaf("a"),
        Failure("raised", "ValueError: no"),
        leaf("b"),
        leaf("x", expected="P('data')"),
        leaf("c"),
        Failure("raised", "ValueError: no"),
    ]
    texts = [text for _, text in failure_texts(found)]
    first = [text.partition("  ")[0] for text in texts]
    assert first == ["3 leaves", "ValueError: no", "params['x'] f32[4]", "ValueError: no"]
    assert texts[0].endswith("params['a'] f32[4], params['b'] f32[4], params['c'] f32[4]")


def test_two_leaves_are_two_lines() -> None:
    assert len(failure_texts([leaf("a"), leaf("b")])) == 2


def test_of_unknown_sizes_no_sum_is_told() -> None:
    ((_, text),) = failure_texts([leaf("a"), leaf("b"), leaf("c", size=None)])
    assert "/device" not in text


def test_a_message_of_several_lines_stays_below() -> None:
    ((_, text),) = failure_texts([leaf(name, message="\nthe program\nsays so") for name in "abc"])
    first, *below = text.splitlines()
    assert first.endswith("params['c'] f32[4]") and below == ["the program", "says so"]


def test_the_report_counts_lines_not_leaves() -> None:
    result = Result("t", "compile", FAIL, failures=[leaf(f"w{number}") for number in range(300)])
    text = result_text(result)
    assert "300 leaves" in text and "more (all are in" not in text
