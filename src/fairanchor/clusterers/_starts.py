"""Where fair k-means starts from, and which starts are worth following."""

import numpy as np
from sklearn.cluster import kmeans_plusplus
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array

from fairanchor._sampling import spread_sample, spread_sample_by_weight
from fairanchor.clusterers._fair_lloyd import Settled, plain_lloyd

# Rows from which seeds are drawn.
SEEDING_ROWS = 20_000
# Least number of runs of plain k-means.
PLAIN_RUNS = 10
# Rows on which starts compete where each step is a linear program.
COMPETING_ROWS = 4_000


def starting_centers(estimator, rows, distinct, scale):
    """Centres to start from: seeds are drawn from all rows, and settle on some.

    Parameters
    ----------
    estimator : FairKMeans
    rows, distinct : MemoryRows
        All rows, and those that plain k-means is run on.
    scale : float
        What the rows were multiplied by.

    Yields
    ------
    centers : ndarray of shape (n_clusters, n_features)
    """
    if not isinstance(estimator.init, str):
        centers = check_array(estimator.init, dtype=np.float64, copy=True)
        expected = (estimator.n_clusters, rows.n_features)
        if centers.shape != expected:
            raise ValueError(
                f"init has shape {centers.shape}, expected (n_clusters, n_features)="
                f"{expected}: one centre per cluster."
            )
        yield centers * scale
        return
    random_state = check_random_state(estimator.random_state)
    if estimator.init == "random":
        shares = rows.weights / rows.total
        if np.count_nonzero(shares) < estimator.n_clusters:
            shares = None  # rows without weight have to serve as well
        for _ in range(estimator.n_init):
            chosen = random_state.choice(rows.n_rows, estimator.n_clusters, replace=False, p=shares)
            yield rows.X[chosen]
        return
    if estimator.init == "k-means++":
        for _ in range(estimator.n_init):
            yield _seeds(rows, estimator.n_clusters, random_state)
        return
    options = {"max_iter": estimator.max_iter, "tol": estimator.tol}
    # Plain k-means is run at least so often that its best is good.
    seeds = [
        _seeds(rows, estimator.n_clusters, random_state)
        for _ in range(max(estimator.n_init, PLAIN_RUNS))
    ]
    plain = [Settled(*plain_lloyd(distinct, centers, **options)) for centers in seeds]
    for settled in cheapest_different(plain, estimator.n_init):
        yield settled.centers


def _seeds(rows, n_clusters, random_state):
    chosen = spread_sample(rows.n_rows, max(SEEDING_ROWS, n_clusters))
    return kmeans_plusplus(
        rows.X[chosen],
        n_clusters,
        sample_weight=rows.weights[chosen],
        random_state=random_state,
    )[0]


def competing_rows(rows):
    """Some of the rows of each group, which weigh as much as all of it; or all, if these are few.

    Parameters
    ----------
    rows : MemoryRows

    Returns
    -------
    sample : MemoryRows
    """
    if rows.n_rows <= 2 * COMPETING_ROWS:
        return rows
    chosen, weights = [], []
    for own in rows.members:
        share = COMPETING_ROWS * len(own) // rows.n_rows
        quota = max(share, COMPETING_ROWS // (4 * rows.n_groups), 1)
        places, own_weights = spread_sample_by_weight(rows.weights[own], quota)
        chosen.append(own[places])
        weights.append(own_weights)
    return rows.subset(np.concatenate(chosen)).weighted(np.concatenate(weights))


def cheapest_different(candidates, at_most):
    """At most so many candidates with different costs, the cheapest first.

    Of those that cost the same, only the first given.

    Starts that come to the same clusters number them differently, and rounding errors, hence
    the units of the data, must not decide between them.
    """
    levels = []  # of equal cost: the cost, and the first candidate that has it
    for k in sorted(range(len(candidates)), key=lambda k: candidates[k].cost):
        cost = candidates[k].cost
        if levels and cost <= levels[-1][0] * (1 + 1e-9):
            levels[-1][1] = min(levels[-1][1], k)
        else:
            levels.append([cost, k])
    return [candidates[k] for _, k in levels[:at_most]]
