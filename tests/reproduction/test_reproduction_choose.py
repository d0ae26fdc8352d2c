"""The choice of hyper-parameters from a grid, against the rules read out loud."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairanchor.reproduction._cells import Cell
from fairanchor.reproduction._choose import RELATIVE_BALANCE_FLOOR, choose

share = st.floats(0, 1)
results = st.fixed_dictionaries(
    {
        "status": st.sampled_from(["done", "done", "done", "refused"]),
        "acc": share,
        "nmi": share,
        "relative_balance": share,
        "cost": st.floats(0.1, 100),
    }
)


def grid_of(measured):
    cells = [
        Cell("law", "vfc", "framework", "ours", per_group=2 + i // 4, alpha=10.0 ** (i % 4))
        for i in range(len(measured))
    ]
    return list(zip(cells, measured, strict=True))


@given(st.lists(results, min_size=1, max_size=12))
def test_with_labels_nothing_beats_the_choice(measured):
    grid = grid_of(measured)
    done = [result for _, result in grid if result["status"] == "done"]
    chosen = choose("grid_labels", grid)
    if not done:
        assert chosen is None
        return
    value = dict(grid)[chosen]
    assert value["status"] == "done"
    assert all(value["acc"] + value["nmi"] >= other["acc"] + other["nmi"] for other in done)


@given(st.lists(results, min_size=1, max_size=12))
def test_the_label_free_rule_never_looks_at_labels(measured):
    grid = grid_of(measured)
    blinded = [(cell, result | {"acc": 0.0, "nmi": 0.0}) for cell, result in grid]
    assert choose("grid_label_free", grid) == choose("grid_label_free", blinded)


@given(st.lists(results, min_size=1, max_size=12))
def test_the_label_free_rule_takes_the_least_cost_above_the_floor(measured):
    grid = grid_of(measured)
    done = [result for _, result in grid if result["status"] == "done"]
    chosen = choose("grid_label_free", grid)
    if not done:
        assert chosen is None
        return
    value = dict(grid)[chosen]
    fair = [r["cost"] for r in done if r["relative_balance"] >= RELATIVE_BALANCE_FLOOR]
    if fair:
        assert value["relative_balance"] >= RELATIVE_BALANCE_FLOOR
        assert value["cost"] == min(fair)
    else:
        assert value["relative_balance"] == max(r["relative_balance"] for r in done)


@pytest.mark.parametrize("rule", ["grid_labels", "grid_label_free"])
def test_ties_go_to_fewer_anchors_then_to_smaller_alpha(rule):
    same = {"status": "done", "acc": 0.5, "nmi": 0.1, "relative_balance": 1.0, "cost": 1.0}
    grid = grid_of([same] * 12)
    for order in (grid, grid[::-1]):
        chosen = choose(rule, order)
        assert (chosen.per_group, chosen.alpha) == (2, 1.0)
