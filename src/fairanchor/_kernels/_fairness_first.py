"""Local search of fairness-first clustering: single moves, and swaps inside a group.

A sweep keeps its `State` up to date. The caller computes it anew before each sweep, so that
rounding errors cannot accumulate.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from fairanchor._kernels import INNER, LEAN

#: A gain must exceed this share of the terms it is the difference of.
RELATIVE_NOISE = 1e-12


class Rows(NamedTuple):
    """Features, weight and group of each row."""

    X: np.ndarray
    weights: np.ndarray
    codes: np.ndarray


class State(NamedTuple):
    """Labels, and what they imply: means, weights, numbers of rows and clusters × groups."""

    labels: np.ndarray
    centers: np.ndarray
    totals: np.ndarray
    sizes: np.ndarray
    masses: np.ndarray


@njit(**LEAN)
def relaxation_sweep(order, rows, least_balance, state):
    """Visit rows in order; move each to the best cluster that fairness allows.

    A move is allowed if the two clusters concerned keep a balance of ``least_balance``,
    or at least do not fall below the smaller balance they have now. Returns the number of moves.
    """
    labels, centers, totals, sizes, masses = state
    n_moves = 0
    for i in order:
        x, weight, group, origin = rows.X[i], rows.weights[i], rows.codes[i], labels[i]
        rest = totals[origin] - weight
        if sizes[origin] == 1 or rest <= 0.0:
            continue
        leaving = weight * _squared_distance(x, centers[origin]) * (totals[origin] / rest)
        best, target = -RELATIVE_NOISE * leaving, origin
        for l in range(len(totals)):
            if l == origin:
                continue
            joining = weight * _squared_distance(x, centers[l])
            joining *= totals[l] / (totals[l] + weight)
            if joining - leaving < best and _may_move(
                masses, group, weight, origin, l, least_balance
            ):
                best, target = joining - leaving, l
        if target != origin:
            _add_row(state, target, x, weight, group)
            _add_row(state, origin, x, -weight, group)
            sizes[origin] -= 1
            sizes[target] += 1
            labels[i] = target
            n_moves += 1
    return n_moves


@njit(**LEAN)
def improvement_sweep(rows, distances, members, starts, least, reach, state):
    """Swap pairs of rows of one group between two clusters where that lowers the cost.

    Each row takes the first partner that does. Partners, and cells of them, that a lower bound on
    the change rules out are skipped; the bound uses the ``distances`` before the sweep, so that
    only a sweep without any swap proves that there is no improving pair. ``members`` are rows
    sorted by group and cluster, and ``starts`` these cells, with the ``least`` gain and the largest
    ``reach`` of their rows (weight times distance) to every cluster. Returns the number of swaps.
    """
    labels, centers, totals, _, masses = state
    n_clusters, lightest, n_swaps = len(totals), rows.weights.min(), 0
    for i in range(len(labels)):
        x, a, group, weight = rows.X[i], labels[i], rows.codes[i], rows.weights[i]
        for b in range(n_clusters):
            cell = group * n_clusters + b
            left = weight * (distances[i, b] ** 2 - distances[i, a] ** 2)
            in_a, in_b = weight * distances[i, a], weight * distances[i, b]
            # The centres move by no more than what the rows are away from them.
            saved = (in_a + reach[cell, a]) ** 2 + (in_b + reach[cell, b]) ** 2
            smallest = max(min(totals[a], totals[b] - reach[cell, -1]) - weight, 0.0) + lightest
            if a == b or left + least[cell, a] >= saved / smallest:
                continue
            for partner in members[starts[cell] : starts[cell + 1]]:
                y, other = rows.X[partner], rows.weights[partner]
                to_a, to_b = distances[partner, a], distances[partner, b]
                new_a = max(totals[a] - weight + other, lightest)
                new_b = max(totals[b] - other + weight, lightest)
                saved = (in_a + other * to_a) ** 2 / new_a + (in_b + other * to_b) ** 2 / new_b
                if labels[partner] != b or left + other * (to_a**2 - to_b**2) >= saved:
                    continue
                change, noise = swap_change(
                    x, y, weight, other, centers[a], centers[b], totals[a], totals[b]
                )
                is_fair = weight == other or _may_move(masses, group, weight - other, a, b, np.inf)
                if change < -RELATIVE_NOISE * noise and is_fair:
                    _add_row(state, a, y, other, group)
                    _add_row(state, b, x, weight, group)
                    _add_row(state, a, x, -weight, group)
                    _add_row(state, b, y, -other, group)
                    labels[i], labels[partner] = b, a
                    n_swaps += 1
                    break
            if labels[i] != a:
                break
    return n_swaps


@njit(**LEAN)
def swap_change(x, y, weight_x, weight_y, center_a, center_b, total_a, total_b):
    """Change of the cost when x leaves a for b and y leaves b for a, and its terms' size.

    Around the old centre a cluster's moment changes by the rows' own terms; what the new
    centre saves is its shift, squared, times the new weight.
    """
    moved, size, shift_a, shift_b = 0.0, 0.0, 0.0, 0.0
    for j in range(len(x)):
        xa, xb = x[j] - center_a[j], x[j] - center_b[j]
        ya, yb = y[j] - center_a[j], y[j] - center_b[j]
        moved += weight_x * (xb * xb - xa * xa) + weight_y * (ya * ya - yb * yb)
        size += weight_x * (xb * xb + xa * xa) + weight_y * (ya * ya + yb * yb)
        shift_a += (weight_y * ya - weight_x * xa) ** 2
        shift_b += (weight_x * xb - weight_y * yb) ** 2
    # Positive also where rounding makes the lost weight exceed the total.
    new_a = max(total_a - weight_x, 0.0) + weight_y
    new_b = max(total_b - weight_y, 0.0) + weight_x
    saved = shift_a / new_a + shift_b / new_b
    return moved - saved, size + saved


@njit(**INNER)
def _add_row(state, l, x, weight, group):
    """Let a row join a cluster, or leave it with a negative weight."""
    centers, totals, masses = state.centers, state.totals, state.masses
    totals[l] += weight
    masses[l, group] = max(masses[l, group] + weight, 0.0)
    if totals[l] > 0.0:
        for j in range(len(x)):
            centers[l, j] += weight * (x[j] - centers[l, j]) / totals[l]


@njit(**INNER)
def _may_move(masses, group, weight, origin, target, least_balance):
    """Whether the clusters stay above ``least_balance`` or get no worse than they are."""
    needed = min(least_balance, _balance(masses[origin]), _balance(masses[target]))
    before_origin, before_target = masses[origin, group], masses[target, group]
    masses[origin, group] = max(before_origin - weight, 0.0)
    masses[target, group] = max(before_target + weight, 0.0)
    reached = min(_balance(masses[origin]), _balance(masses[target]))
    masses[origin, group], masses[target, group] = before_origin, before_target
    return reached >= needed


@njit(**INNER)
def _balance(row):
    largest = row.max()
    return row.min() / largest if largest > 0.0 else 0.0


@njit(**INNER)
def _squared_distance(x, center):
    total = 0.0
    for j in range(len(x)):
        difference = x[j] - center[j]
        total += difference * difference
    return total
