"""Fairlets of least cost, by exact transport to the rows of the smallest group.

A fairlet here is a *star*: one row of the smallest group, the hub, and between ``least`` and
``most`` rows of every other group. Each other group is a transport problem of its own.
"""

import numpy as np
from scipy.spatial.distance import cdist

from fairanchor._kernels._fairlets import assign_to_hubs


def flow_fairlets(X, groups, loads, objective):
    """Stars of least total (``"kmedian"``) or least largest (``"kcenter"``) distance to the hub.

    For ``"kcenter"`` the stars with the least sum are taken among those with the least
    radius. Time is super-quadratic, memory is one matrix of distances of a group to the hubs.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
    groups : Groups
        At least two; the last one holds the hubs.
    loads : list of (int, int)
        Least and most rows of each other group in a star.
    objective : {"kcenter", "kmedian"}

    Returns
    -------
    hub_of_row : ndarray of shape (n_rows,), dtype int64
        Row index of the hub of each row; a hub is its own.
    """
    hubs = np.flatnonzero(groups.codes == groups.n_groups - 1)
    hub_of_row = np.full(len(X), -1, dtype=np.int64)
    hub_of_row[hubs] = hubs
    for group, (least, most) in enumerate(loads):
        rows = np.flatnonzero(groups.codes == group)
        distance = cdist(X[rows], X[hubs])
        if objective == "kcenter":
            nearest = assign_to_hubs(distance, least, most, True)
            radius = distance[np.arange(len(rows)), nearest].max()
            distance[distance > radius] = np.inf
        hub_of_row[rows] = hubs[assign_to_hubs(distance, least, most, False)]
    return hub_of_row


def vanilla_fairlets(groups, loads, random_state):
    """Stars without any geometry: the baseline, rows dealt to hubs in random order.

    With two groups as many hubs as possible get ``most`` rows, at most one a rest, and the
    others one. With more groups every hub gets an equal share, rounded.
    """
    hubs = random_state.permutation(np.flatnonzero(groups.codes == groups.n_groups - 1))
    hub_of_row = np.empty(len(groups.codes), dtype=np.int64)
    hub_of_row[hubs] = hubs
    for group, (_, most) in enumerate(loads):
        rows = random_state.permutation(np.flatnonzero(groups.codes == group))
        if groups.n_groups == 2:
            share = _full_blocks_first(len(rows), len(hubs), most)
        else:
            share = np.full(len(hubs), len(rows) // len(hubs))
            share[: len(rows) % len(hubs)] += 1
        hub_of_row[rows] = np.repeat(hubs, share)
    return hub_of_row


def _full_blocks_first(n_rows, n_hubs, most):
    """Number of rows of each hub: blocks of ``most``, one corrective block, pairs."""
    share = np.ones(n_hubs, dtype=np.int64)
    surplus = n_rows - n_hubs
    if surplus:
        n_full, rest = divmod(surplus, most - 1)
        share[:n_full] = most
        if rest:
            share[n_full] = 1 + rest
    return share
