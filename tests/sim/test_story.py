from evensong.sim.story import TOGETHER_US, Line, fold


def told(*rows: tuple[int, int, str]) -> list[str]:
    lines = [Line(at_us, node, text) for at_us, node, text in rows]
    return [
        f"{''.join(map(str, nodes))} {line.text}"
        for nodes, line in fold(sorted(lines, key=lambda line: line.at_us))
    ]


def test_alike_lines_are_told_once() -> None:
    rows = [(1, 1, "a"), (2, 2, "a"), (3, 1, "b"), (4, 3, "a"), (5, 2, "b")]
    assert told(*rows) == ["123 a", "12 b"]


def test_an_order_that_differs_is_not_hidden() -> None:
    assert told((1, 1, "a"), (2, 1, "b"), (3, 2, "b"), (4, 2, "a")) == ["1 a", "12 b", "2 a"]


def test_what_only_one_does_stays_where_it_did_it() -> None:
    rows = [(1, 1, "a"), (2, 2, "x"), (3, 2, "a"), (4, 1, "y"), (5, 1, "b"), (6, 2, "b")]
    assert told(*rows) == ["2 x", "12 a", "1 y", "12 b"]


def test_what_is_far_apart_is_not_done_together() -> None:
    assert told((0, 1, "a"), (TOGETHER_US + 1, 2, "a")) == ["1 a", "2 a"]
    assert told((0, 1, "a"), (TOGETHER_US, 2, "a")) == ["12 a"]
