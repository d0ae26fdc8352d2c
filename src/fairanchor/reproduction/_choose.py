"""Hyper-parameters from a grid: with labels, as papers do, and without, as users must."""

# A setting is fair enough for the label-free rule if no group's share in a cluster is off by
# more than 2 % of itself.
RELATIVE_BALANCE_FLOOR = 0.98

RULES = {
    "grid_labels": "the grid point with the largest ACC + NMI, which needs the true classes "
    "(the paper does not state its rule)",
    "grid_label_free": "the grid point with the least k-means cost among those with a relative "
    f"balance of at least {RELATIVE_BALANCE_FLOOR}; if there is none, the largest relative balance",
}


def choose(rule, measured):
    """The chosen cell of a grid.

    Parameters
    ----------
    rule : {"grid_labels", "grid_label_free"}
    measured : iterable of (Cell, dict)
        Cells of one grid and their results; those that were refused do not count.

    Returns
    -------
    cell : Cell or None
        None if nothing was measured. Ties go to fewer anchors, then to the smaller alpha.
    """
    done = [(cell, result) for cell, result in measured if result["status"] == "done"]
    if not done:
        return None
    done.sort(key=lambda pair: (pair[0].per_group, pair[0].alpha))
    return _CHOOSERS[rule](done)[0]


def _by_labels(done):
    return max(done, key=lambda pair: pair[1]["acc"] + pair[1]["nmi"])


def _label_free(done):
    fair = [pair for pair in done if pair[1]["relative_balance"] >= RELATIVE_BALANCE_FLOOR]
    if fair:
        return min(fair, key=lambda pair: pair[1]["cost"])
    return max(done, key=lambda pair: pair[1]["relative_balance"])


_CHOOSERS = {"grid_labels": _by_labels, "grid_label_free": _label_free}
