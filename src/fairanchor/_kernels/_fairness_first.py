"""Local search of fairness-first clustering: single moves, and swaps inside a group.

A sweep keeps its `State` up to date. The caller computes it anew before each sweep, so that
rounding errors cannot accumulate.
"""

import math
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
def improvement_sweep(rows, distances, members, starts, state):
    """Swap pairs of rows of one group between two clusters where that lowers the cost.

    Each row takes the first partner that does. Blocks of partners that a lower bound on the
    change rules out are skipped; the bound uses the ``distances`` before the sweep, so that
    only a sweep without any swap proves that there is no improving pair. ``members`` are rows
    sorted by group and cluster, ``starts`` their blocks. Returns the number of swaps.
    """
    n_rows, n_clusters = distances.shape
    least, reach, heaviest = _partner_bounds(rows.weights, distances, members, starts)
    lightest = rows.weights.min()
    n_swaps = 0
    for i in range(n_rows):
        a, group, weight = state.labels[i], rows.codes[i], rows.weights[i]
        for b in range(n_clusters):
            first, last = starts[group, b], starts[group, b + 1]
            if a == b or first == last:
                continue
            change = weight * (distances[i, b] - distances[i, a])
            in_a = reach[group, a, b] + weight * math.sqrt(distances[i, a])
            in_b = reach[group, b, b] + weight * math.sqrt(distances[i, b])
            left_a = max(state.totals[a] - weight, 0.0) + lightest
            left_b = max(state.totals[b] - heaviest[group, b], 0.0) + weight
            slack = in_a * in_a / left_a + in_b * in_b / left_b
            if change + least[group, a, b] >= slack:
                continue
            if _swap_with_one_of(members[first:last], i, b, slack - change, rows, distances, state):
                n_swaps += 1
                break
    return n_swaps


@njit(**INNER)
def _partner_bounds(weights, distances, members, starts):
    """Per group and clusters a, b: what partners in b can contribute at best.

    That is the smallest ``weight * (distance to a - distance to b)``, the largest ``weight *
    sqrt(distance to a)``, and the largest weight.
    """
    n_groups, n_clusters = starts.shape[0], starts.shape[1] - 1
    least = np.full((n_groups, n_clusters, n_clusters), np.inf)
    reach = np.zeros((n_groups, n_clusters, n_clusters))
    heaviest = np.zeros((n_groups, n_clusters))
    for r in range(n_groups):
        for b in range(n_clusters):
            for i in members[starts[r, b] : starts[r, b + 1]]:
                weight = weights[i]
                heaviest[r, b] = max(heaviest[r, b], weight)
                for a in range(n_clusters):
                    change = weight * (distances[i, a] - distances[i, b])
                    least[r, a, b] = min(least[r, a, b], change)
                    reach[r, a, b] = max(reach[r, a, b], weight * math.sqrt(distances[i, a]))
    return least, reach, heaviest


@njit(**INNER)
def _swap_with_one_of(candidates, i, b, bound, rows, distances, state):
    """Swap row i with the first candidate in b that lowers the cost and is allowed, if any."""
    labels, centers, totals, _, masses = state
    x, a, group, weight = rows.X[i], labels[i], rows.codes[i], rows.weights[i]
    for partner in candidates:
        y, other = rows.X[partner], rows.weights[partner]
        is_promising = other * (distances[partner, a] - distances[partner, b]) < bound
        if not is_promising or labels[partner] != b:
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
            return True
    return False


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
