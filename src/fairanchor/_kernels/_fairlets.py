"""Kernels of fairlets: a quadtree in which rows are matched to hubs.

The tree halves one coordinate at a time, so its nodes include those of the usual quadtree
and every inner node has two children, whatever the number of features. Nodes with all rows on
one side of a cut are skipped: at most ``2 n_rows - 1`` nodes are left. Nodes are numbered in
the order of creation, hence parents come before children, and loops replace recursion.
"""

import numpy as np
from numba import njit

from fairanchor._kernels import INNER, LEAN


@njit(**LEAN)
def build_tree(cells):
    """Compressed binary quadtree: the rows in the order of the leaves, the spans of rows of each
    node in that order, and the two children of each node, -1 in a leaf.
    """
    n_rows = len(cells)
    order = np.arange(n_rows)
    buffer = np.empty(n_rows, dtype=np.int64)
    spans = np.zeros((2 * n_rows, 2), dtype=np.int64)
    children = np.full((2 * n_rows, 2), -1, dtype=np.int64)
    spans[0, 1] = n_rows
    n_nodes = 1
    node = 0
    while node < n_nodes:
        start, stop = spans[node]
        feature, bit = _first_cut(cells, order[start:stop])
        if bit > 0:
            middle = _partition(cells, order, buffer, start, stop, feature, bit)
            spans[n_nodes] = start, middle
            spans[n_nodes + 1] = middle, stop
            children[node] = n_nodes, n_nodes + 1
            n_nodes += 2
        node += 1
    return order, spans[:n_nodes], children[:n_nodes]


@njit(**INNER)
def _first_cut(cells, rows):
    """Feature and value of the highest bit in which the rows differ; bit 0 if in none."""
    feature, highest = 0, 0
    if len(rows) == 1:
        return feature, highest
    for j in range(cells.shape[1]):
        differs = 0
        for i in rows:
            differs |= cells[i, j] ^ cells[rows[0], j]
        # True exactly when the highest bit of `differs` is above that of `highest`.
        if highest < differs and highest < (highest ^ differs):
            feature, highest = j, differs
    bit = 0
    if highest > 0:
        bit = 1
        while bit <= highest >> 1:
            bit <<= 1
    return feature, bit


@njit(**INNER)
def _partition(cells, order, buffer, start, stop, feature, bit):
    """Stable partition of ``order[start:stop]`` by one bit, in place; returns the border."""
    middle, n_right = start, 0
    for position in range(start, stop):
        row = order[position]
        if cells[row, feature] & bit:
            buffer[n_right] = row
            n_right += 1
        else:
            order[middle] = row
            middle += 1
    order[middle:stop] = buffer[:n_right]
    return middle


@njit(**LEAN)
def match_upwards(tree, post_order, kind, loads):
    """Pair rows of kind 0 with rows of kind 1 in the smallest boxes that hold both.

    ``tree`` is what `build_tree` returns. A row of kind k needs ``loads[k, 0]`` units and has room
    for ``loads[k, 1]``. Rows in need are paired with each other first, then with rows that have
    room. Units that go to the room of one kind leave the other kind with less need, so both
    have a budget, within which all needs can be met in the root. As the nodes come in post-order,
    the open rows of a node are on top of the stacks. A pair can occur twice.
    """
    order, spans, children = tree
    n = len(order)
    needing, roomy = np.empty((2, n), np.int64), np.empty((2, n), np.int64)
    n_needing, n_roomy = np.zeros(2, np.int64), np.zeros(2, np.int64)
    needs, rooms = np.zeros(n, np.int64), np.zeros(n, np.int64)
    counts = np.zeros(2, np.int64)
    for position in range(n):
        k = kind[order[position]]
        if k >= 0:
            counts[k] += 1
            needs[position], rooms[position] = loads[k, 0], loads[k, 1] - loads[k, 0]
    room_0 = counts[0] * (loads[0, 1] - loads[0, 0])
    room_1 = counts[1] * (loads[1, 1] - loads[1, 0])
    surplus = counts[1] * loads[1, 0] - counts[0] * loads[0, 0]
    budget = np.empty(2, np.int64)
    budget[0] = min(room_0, surplus + room_1)
    budget[1] = min(room_1, room_0 - surplus)
    # Every pair uses up a need, a room or a budget.
    pairs, units = np.empty((2, 2 * n + 2), np.int64), np.empty(2 * n + 2, np.int64)
    n_pairs = 0
    for node in post_order:
        start, stop = spans[node]
        if children[node, 0] < 0:
            for position in range(start, stop):
                k = kind[order[position]]
                if k >= 0:
                    needing[k, n_needing[k]] = roomy[k, n_roomy[k]] = position
                    n_needing[k] += 1
                    n_roomy[k] += rooms[position] > 0
        while True:
            found = -1
            for k in range(2):
                if n_needing[k] and needing[k, n_needing[k] - 1] >= start:
                    found = k if found < 0 else 2
            if found < 0:
                break
            k = found % 2
            i = needing[k, n_needing[k] - 1]
            if found == 2:
                j = needing[1, n_needing[1] - 1]
                amount = min(needs[i], needs[j])
                needs[j] -= amount
                n_needing[1] -= needs[j] == 0
            elif budget[1 - k] and n_roomy[1 - k] and roomy[1 - k, n_roomy[1 - k] - 1] >= start:
                j = roomy[1 - k, n_roomy[1 - k] - 1]
                amount = min(needs[i], rooms[j], budget[1 - k])
                rooms[j] -= amount
                budget[1 - k] -= amount
                n_roomy[1 - k] -= rooms[j] == 0
            else:
                break
            needs[i] -= amount
            n_needing[k] -= needs[i] == 0
            pairs[k, n_pairs], pairs[1 - k, n_pairs] = order[i], order[j]
            units[n_pairs] = amount
            n_pairs += 1
    return pairs[0, :n_pairs], pairs[1, :n_pairs], units[:n_pairs]


@njit(**LEAN)
def take_surplus(pairs, first, second, surplus, units):
    """Lower the units of pairs, in the given order, by what both rows can spare; in place."""
    for pair in pairs:
        i, j = first[pair], second[pair]
        spared = min(units[pair], surplus[i], surplus[j])
        units[pair] -= spared
        surplus[i] -= spared
        surplus[j] -= spared
