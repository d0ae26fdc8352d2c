"""Fairlets in near-linear time, from a randomly shifted quadtree.

The tree halves one coordinate at a time, so its nodes include those of the usual quadtree
and every inner node has two children, whatever the number of features. Nodes with all rows on
one side of a cut are skipped: at most ``2 n_rows - 1`` nodes are left. Numbers are given in
the order of creation, hence parents come before children, and loops replace recursion.
"""

import numpy as np
from numba import njit

from fairanchor._kernels import NUMBA_CACHE

#: Halvings of each coordinate; rows that agree in all of them share a leaf.
TREE_DEPTH = 30


def tree_fairlets(X, groups, loads, random_state):
    """Stars whose rows lie in small boxes of the tree.

    Two groups: the decomposition of Backurs et al. for the balance ``1 / most``, in which a
    row of either group can be the hub. More groups: the rows of every other group are
    matched bottom-up to the hubs, rows of the smallest group, within the loads.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
    groups : Groups
        At least two; the last one is the smallest.
    loads : list of (int, int)
        Least and most rows of each other group in a star.
    random_state : RandomState

    Returns
    -------
    hub_of_row : ndarray of shape (n_rows,), dtype int64
        Row index of the hub of each row; a hub is its own.
    """
    order, spans, children = build_tree(_cells(X, random_state))
    if groups.n_groups == 2:
        return _split_two_colors(order, spans, children, groups.codes, loads[0][1])
    hub_code = groups.n_groups - 1
    hub_of_row = np.where(groups.codes == hub_code, np.arange(len(X)), -1)
    # Children end no later than their parents: this is a post-order.
    post_order = np.lexsort((-spans[:, 0], spans[:, 1]))
    n_hubs = int(groups.sizes[hub_code])
    for group, (least, most) in enumerate(loads):
        kind = np.where(groups.codes == group, 1, np.where(groups.codes == hub_code, 2, 0))
        n_extra = int(groups.sizes[group]) - least * n_hubs
        _match_upwards(
            order, spans, children, post_order, kind, least, most - least, n_extra, hub_of_row
        )
    return hub_of_row


def _cells(X, random_state):
    """Integer coordinates of the rows in a randomly shifted box of twice their range.

    Coordinates are ordered by decreasing variance: the first ones are cut first.
    """
    low = X.min(axis=0)
    side = float((X.max(axis=0) - low).max())
    shift = random_state.uniform(size=X.shape[1])
    if side == 0:
        return np.zeros(X.shape, dtype=np.int64)
    cells = np.floor(((X - low) / side + shift) * 2.0 ** (TREE_DEPTH - 1)).astype(np.int64)
    by_variance = np.argsort(-X.var(axis=0), kind="stable")
    return np.ascontiguousarray(cells[:, by_variance])


@njit(nogil=True, cache=NUMBA_CACHE)
def build_tree(cells):
    """Compressed binary quadtree.

    Returns
    -------
    order : ndarray of shape (n_rows,)
        Rows in the order of the leaves.
    spans : ndarray of shape (n_nodes, 2)
        ``order[spans[v, 0]:spans[v, 1]]`` are the rows of node v.
    children : ndarray of shape (n_nodes, 2)
        Nodes, or -1 in a leaf.
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


@njit(nogil=True, cache=NUMBA_CACHE)
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


@njit(nogil=True, cache=NUMBA_CACHE)
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


@njit(nogil=True, cache=NUMBA_CACHE)
def _split_two_colors(order, spans, children, colors, most):
    """Stars of two colours with at most ``most`` rows around a hub, from the root down.

    Each node takes from its children the fewest rows after which the children and the rows
    taken can be split, makes stars of these, and leaves the rest to the children.
    """
    left, positions = _count_colors(order, spans, children, colors)
    hub_of_row = np.full(len(order), -1, dtype=np.int64)
    taken = (np.empty(len(order), dtype=np.int64), np.empty(len(order), dtype=np.int64))
    for node in range(len(spans)):
        n_taken = np.zeros(2, dtype=np.int64)
        if children[node, 0] < 0:
            wanted = left[node : node + 1].copy()
            sources = np.array([node])
        else:
            sources = children[node]
            wanted = _rows_to_take(left[sources[0]], left[sources[1]], most)
        for c in range(len(sources)):
            for color in range(2):
                for _ in range(wanted[c, color]):
                    position = _take(sources[c], color, most, children, left, positions)
                    taken[color][n_taken[color]] = position
                    n_taken[color] += 1
        _emit_stars(order, taken, n_taken, hub_of_row)
    return hub_of_row


@njit(nogil=True, cache=NUMBA_CACHE)
def _count_colors(order, spans, children, colors):
    """Rows of each colour in every node, and where a leaf's rows of a colour begin.

    The rows of a leaf are put in the order of their colours, in place.
    """
    left = np.zeros((len(spans), 2), dtype=np.int64)
    positions = np.zeros((len(spans), 2), dtype=np.int64)
    for node in range(len(spans) - 1, -1, -1):
        if children[node, 0] >= 0:
            left[node] = left[children[node, 0]] + left[children[node, 1]]
            continue
        rows = order[spans[node, 0] : spans[node, 1]].copy()
        place = spans[node, 0]
        for color in range(2):
            positions[node, color] = place
            for row in rows:
                if colors[row] == color:
                    order[place] = row
                    place += 1
            left[node, color] = place - positions[node, color]
    return left, positions


@njit(nogil=True, cache=NUMBA_CACHE)
def _rows_to_take(first, second, most):
    """Rows of each child (axis 0) and colour (axis 1) that their parent takes."""
    counts = np.empty((2, 2), dtype=np.int64)
    counts[0], counts[1] = first, second
    wanted = np.zeros((2, 2), dtype=np.int64)
    # What a child cannot balance within itself.
    for c in range(2):
        for color in range(2):
            wanted[c, color] = max(0, counts[c, color] - most * counts[c, 1 - color])
    rest = counts - wanted
    total = wanted.sum(axis=0)
    much = 0 if total[0] >= total[1] else 1
    few = 1 - much
    # What a child can spare of the colour that is short here.
    for c in range(2):
        needed = -(-total[much] // most) - total[few]
        spare = rest[c, few] - -(-rest[c, much] // most)
        moved = max(0, min(needed, spare))
        wanted[c, few] += moved
        rest[c, few] -= moved
        total[few] += moved
    # A child's star that is not full brings more room than rows; the emptier one first.
    emptier = 0 if rest[0, much] % most <= rest[1, much] % most else 1
    for step in range(2):
        c = emptier if step == 0 else 1 - emptier
        partial = rest[c, much] % most
        if partial and total[much] > most * total[few]:
            wanted[c, much] += partial
            wanted[c, few] += 1
            total[much] += partial
            total[few] += 1
    return wanted


@njit(nogil=True, cache=NUMBA_CACHE)
def _take(node, color, most, children, left, positions):
    """Remove one row of a colour from below a node; returns its position in the order.

    Goes where the colour is most in excess, else where most can be spared.
    """
    while True:
        left[node, color] -= 1
        if children[node, 0] < 0:
            positions[node, color] += 1
            return positions[node, color] - 1
        best, best_excess, best_spare = -1, 0, 0
        for child in children[node]:
            same, other = left[child, color], left[child, 1 - color]
            if same == 0:
                continue
            excess = max(0, same - most * other)
            spare = same - -(-other // most)
            if best < 0 or excess > best_excess or (excess == best_excess and spare > best_spare):
                best, best_excess, best_spare = child, excess, spare
        node = best


@njit(nogil=True, cache=NUMBA_CACHE)
def _emit_stars(order, taken, n_taken, hub_of_row):
    """Deal the rows of the more frequent colour to those of the other, along the order."""
    few = 0 if n_taken[0] < n_taken[1] else 1
    n_hubs, n_rows = n_taken[few], n_taken[1 - few]
    hubs = np.sort(taken[few][:n_hubs])
    rows = np.sort(taken[1 - few][:n_rows])
    for h in range(n_hubs):
        hub = order[hubs[h]]
        hub_of_row[hub] = hub
        for i in range(h * n_rows // n_hubs, (h + 1) * n_rows // n_hubs):
            hub_of_row[order[rows[i]]] = hub


@njit(nogil=True, cache=NUMBA_CACHE)
def _match_upwards(order, spans, children, post_order, kind, least, room, n_extra, hub_of_row):
    """Match rows (kind 1) to hubs (kind 2) in the smallest boxes that hold both; in place.

    Every hub takes ``least`` rows and up to ``room`` of the ``n_extra`` others. As the nodes
    come in post-order, the open rows and hubs of a node are on top of the three stacks.
    """
    n = len(order)
    open_rows, needing, roomy = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    n_open = n_needing = n_roomy = 0
    still_needs = np.full(n, least, dtype=np.int64)
    still_has = np.full(n, room, dtype=np.int64)
    for node in post_order:
        start, stop = spans[node]
        if children[node, 0] < 0:
            for position in range(start, stop):
                if kind[order[position]] == 1:
                    open_rows[n_open] = position
                    n_open += 1
                elif kind[order[position]] == 2:
                    needing[n_needing] = roomy[n_roomy] = position
                    n_needing += 1
                    n_roomy += 1
        while n_open and open_rows[n_open - 1] >= start:
            if n_needing and needing[n_needing - 1] >= start:
                hub = needing[n_needing - 1]
                still_needs[hub] -= 1
                n_needing -= still_needs[hub] == 0
            elif n_extra and room and n_roomy and roomy[n_roomy - 1] >= start:
                hub = roomy[n_roomy - 1]
                still_has[hub] -= 1
                n_roomy -= still_has[hub] == 0
                n_extra -= 1
            else:
                break
            n_open -= 1
            hub_of_row[order[open_rows[n_open]]] = order[hub]
