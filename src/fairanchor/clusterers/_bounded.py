"""Shares of the groups within bounds in every cluster, by linear programming."""

import warnings
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
from scipy import sparse
from scipy.optimize import linprog
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from threadpoolctl import threadpool_limits

from fairanchor._groups import _columns, check_groups
from fairanchor._scaling import power_of_two_scale
from fairanchor._sklearn_compat import Interval, StrOptions, fit_context
from fairanchor.clusterers._base import FairClusterer, count_cells, fill_empty_clusters
from fairanchor.clusterers._fairlets import find_centers
from fairanchor.exceptions import FairnessWarning

#: Rows of a sample, and of the first restricted program; below this all rows enter at once.
PROGRAM_ROWS = 1000

#: Masses this close to an integer are one: the accuracy that HiGHS promises.
INTEGRAL = 1e-7


class BoundedFairAssignment(FairClusterer):
    """Fair assignment to the centres of an unfair clustering (Bera et al., 2019).

    First centres are found without any regard to groups. Then, with N[l, r] the rows of
    group r in cluster l and N_l the cluster's rows, the labels solve approximately ::

        min   sum or max over rows of cost(x_i, center[label_i])
        s.t.  lower_r N_l <= N[l, r] <= upper_r N_l   for every cluster l and group r

    where the cost is the squared distance (k-means) or the distance. By default
    ``lower_r = (1 - tolerance) pi_r`` and ``upper_r = pi_r / (1 - tolerance)``, pi_r being the
    share of the group in the data. The linear program is solved exactly, with at least one
    row's mass in every cluster, then rounded iteratively.

    Any number of groups. Several columns of ``sensitive_features`` are attributes of their
    own, each with its bounds, and *not* their intersection: a row is in one group of each.

    *Guaranteed for the labels*, with D attributes: no bound is missed by 4 D + 4 rows or
    more (``violation_`` is what was found, commonly 0 to 2 rows), and ``inertia_`` is at most
    ``lp_value_``, the smallest cost that any labels *within* the bounds could have with these
    centres. With ``sample_weight`` all counts are sums of weights and the bound is 4 D + 4
    times the largest weight. Should an empty cluster have to be filled afterwards, or the
    bound be missed for numerical reasons, a ``FairnessWarning`` says so.

    The program has n k variables, but rows that clearly prefer one cluster under the
    prices of the bounds are put there at once and this is checked afterwards (the optimum is
    the exact one): about 0.3 s for 10,000 rows and 5 clusters, 3 s for 100,000.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    objective : {"kmeans", "kmedian", "kcenter"}, default="kmeans"
        The cost, and how centres are found: k-means; k-medoids by swaps (on samples of 2,000
        rows); farthest-first traversal. For k-center the program is a bisection over the
        distances for the least radius, then the least sum of distances within it.
    tolerance : float in [0, 1), default=0.2
        Relative slack of the default bounds; 0 asks for exact proportionality.
    lower, upper : dict, array-like of shape (n_groups,), or list of these, default=None
        Shares instead of the default bounds, by name (others keep the default) or for all
        groups in sorted order of the names. With several columns, a list with one such
        entry, or None, per column. The share of a group in the data must lie within.
    n_init : int, default=10
        Starts for the centres.
    max_iter : int, default=300
        Most iterations for the centres.
    random_state : int, RandomState instance or None, default=None
        Determines the starts.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each row.
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        The centres of the unfair clustering, to which the rows were assigned.
    inertia_ : float
        Cost of the labels with these centres, a maximum for k-center.
    lp_value_ : float
        Optimal value of the linear program, the radius for k-center.
    violation_ : float
        By how many rows (or weight) the worst cell misses its bound; 0 if none does.
    groups_ : ndarray of shape (n_groups,)
        Names of the groups, of the intersection (tuples) if there are several columns.
    counts_ : ndarray of shape (n_clusters, n_groups)
        Rows, or their weight, in each cluster and group.
    balance_ : float
        Smallest group over largest group in the worst cluster, from ``counts_``.
    attribute_groups_, attribute_counts_ : list of ndarray
        Names and table of each column.
    n_iter_ : int
        Iterations of the search for the centres.
    n_features_in_ : int
        Number of features.

    References
    ----------
    .. [1] S. Bera, D. Chakrabarty, N. Flores, M. Negahbani, "Fair algorithms for clustering",
       NeurIPS 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from fairanchor.clusterers import BoundedFairAssignment
    >>> X = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]])
    >>> group = ["a", "a", "a", "b", "b", "b"]
    >>> model = BoundedFairAssignment(2, tolerance=0.5, random_state=0)
    >>> np.sort(model.fit(X, sensitive_features=group).counts_, axis=0)
    array([[1, 1],
           [2, 2]])
    """
