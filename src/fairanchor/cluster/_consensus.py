"""Consensus clustering: what many k-means runs on parts of the data have in common."""

from numbers import Integral
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist, squareform
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.utils import check_random_state

from fairanchor._utils._shared_state import (
    fairness_warnings_ignored,
)
from fairanchor._utils._sklearn_compat import Interval, StrOptions
from fairanchor._utils._typing import Seed
from fairanchor.cluster._affinity import build_affinity
from fairanchor.cluster._base import COMMON_CONSTRAINTS, FairClusterer
from fairanchor.cluster._spectral import FairSpectralClustering
from fairanchor.groups._groups import Groups

#: All pairs of rows are compared: about 25 bytes per pair at the peak.
MOST_ROWS = 10_000
#: Weight of a Gaussian kernel beside the co-association. Rows that no run puts together would
#: otherwise be equally far apart, and which of their clusters to merge would be arbitrary.
KERNEL_WEIGHT = 1e-5
#: Iterations of a run. A few more would move its centres by less than another half of the rows.
RUN_ITERATIONS = 30


class ConsensusClustering(FairClusterer):
    """Clusters that many k-means runs on random parts of the data have in common.

    Each run clusters a random half of the rows by a random half of the features, at least two, and
    then labels all rows. The *co-association* of two rows is the share of runs that put them
    together ::

        A_ij = (number of runs in which rows i and j share a cluster) / n_runs

    The labels minimise the normalised cut of the graph A, relaxed as in spectral clustering; or A
    is merged by average linkage. A run has more clusters than ``n_clusters``, so that a cluster of
    any shape is a chain of small ones, which differ from run to run.

    The groups are not used: this is the group-blind consensus of Consensus Fair Clustering [1]_,
    without its network, and rewritten group records cannot change it. Alone it is not fair; as
    ``AnchorFairClustering(clusterer="consensus")`` it labels the anchors, and the rows get exact
    counts.

    *Guaranteed*: the labels do not depend on the groups. *Not guaranteed*: any balance, or that
    another seed gives the same labels, which ``cluster_stability_`` helps to judge.

    Cost: ``n_runs`` times k-means, and O(n²) time and memory for the pairs, with an eigenproblem
    of n rows; at most 10,000 rows. In the framework n is the number of anchors.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    n_runs : int, default=100
        Number of k-means runs.
    run_clusters : int or "auto", default="auto"
        Clusters of a run. ``"auto"`` is ``2 sqrt(n)``, or twice ``n_clusters`` if that is more;
        ``n_clusters`` is the setting of [1]_, for compact clusters. A run on few rows has fewer.
    method : {"spectral", "average"}, default="spectral"
        How the co-association becomes clusters: normalised cut, or average linkage, which tends
        to split off small clusters where clusters overlap.
    random_state : int, RandomState instance or None, default=None
        Determines the runs.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each row.
    co_association_ : ndarray of shape (n_samples, n_samples)
        A, of the rows that have a weight.
    row_stability_ : ndarray of shape (n_samples,)
        Share of a row's companions in the runs, itself included, that are in its cluster: 1 if no
        run puts it with rows of another cluster, near 0.5 on a border.
    cluster_stability_ : ndarray of shape (n_clusters,)
        Mean of ``row_stability_`` over the rows of each cluster.
    counts_ : ndarray of shape (n_clusters, n_groups)
        Weight of each group in each cluster.
    groups_ : ndarray of shape (n_groups,)
        Names of the groups, sorted: the columns of ``counts_``.
    balance_ : float
        Smallest group over largest group in the worst cluster.
    n_iter_ : int
        Number of runs.
    n_features_in_ : int
        Number of features.

    Notes
    -----
    *Weights.* A row of weight w counts as w rows in k-means, in the normalised cut and in the
    stability. Which rows a run draws, and average linkage, do not depend on weights.

    *Stability* is about borders: it is low where clusters touch. It does not test whether there
    are clusters: rows far from every border have a value near 1 in any data.

    References
    ----------
    .. [1] A. Chhabra, P. Li, P. Mohapatra, H. Liu, "Robust fair clustering: a novel fairness attack
       and defense framework", ICLR 2023.
    .. [2] A. Fred, A. K. Jain, "Combining multiple clusterings using evidence accumulation", IEEE
       Transactions on Pattern Analysis and Machine Intelligence 27(6), 2005.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from fairanchor import ConsensusClustering
    >>> X, moon = make_moons(300, noise=0.05, random_state=0)
    >>> model = ConsensusClustering(2, random_state=0).fit(X, sensitive_features=moon)
    >>> model.counts_.max(axis=1)
    array([150, 150])
    >>> model.cluster_stability_.round(2)
    array([1., 1.])
    """

    _parameter_constraints: dict = {
        **{name: COMMON_CONSTRAINTS[name] for name in ("n_clusters", "random_state")},
        "n_runs": [Interval(Integral, 1, None, closed="left")],
        "run_clusters": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "method": [StrOptions({"spectral", "average"})],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_runs: int = 100,
        run_clusters: int | str = "auto",
        method: str = "spectral",
        random_state: Seed = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_runs = n_runs
        self.run_clusters = run_clusters
        self.method = method
        self.random_state = random_state

    _of_rows = ("row_stability_",)

    def _fit(self, X: np.ndarray, groups: Groups, weights: np.ndarray) -> np.ndarray:
        if len(X) > MOST_ROWS:
            raise ValueError(
                f"X has {len(X)} rows, ConsensusClustering compares all pairs of at most "
                f"{MOST_ROWS}: AnchorFairClustering(clusterer='consensus') takes any number."
            )
        rng = check_random_state(self.random_state)
        runs = self._run_labels(X, weights, rng)
        A = 1.0 - squareform(pdist(runs, "hamming"))
        labels = self._cut(A, X, weights, rng)
        members = (labels[:, None] == np.arange(self.n_clusters)) * weights[:, None]
        companions = A @ members
        in_cluster = companions[np.arange(len(X)), labels]
        self.row_stability_ = in_cluster / companions.sum(axis=1)
        self.cluster_stability_ = self.row_stability_ @ members / members.sum(axis=0)
        self.co_association_, self.n_iter_ = A, self.n_runs
        return labels

    def _run_labels(self, X: np.ndarray, weights: np.ndarray, rng: Any) -> np.ndarray:
        """Labels of all rows in each run: float of shape (n_rows, n_runs)."""
        n_rows = (len(X) + 1) // 2
        n_features = min(max((X.shape[1] + 1) // 2, 2), X.shape[1])
        n_clusters = self.run_clusters
        if isinstance(n_clusters, str):
            n_clusters = max(2 * self.n_clusters, int(2 * np.sqrt(len(X))))
        runs = np.empty((len(X), self.n_runs))
        for run in range(self.n_runs):
            rows = rng.choice(len(X), n_rows, replace=False)
            columns = rng.choice(X.shape[1], n_features, replace=False)
            kmeans = KMeans(
                min(n_clusters, n_rows), n_init=1, max_iter=RUN_ITERATIONS, random_state=rng
            )
            kmeans.fit(X[np.ix_(rows, columns)], sample_weight=weights[rows])
            runs[:, run] = kmeans.predict(X[:, columns])
        return runs

    def _cut(self, A: np.ndarray, X: np.ndarray, weights: np.ndarray, rng: Any) -> np.ndarray:
        """Clusters of a co-association."""
        if self.n_clusters == 1:
            return np.zeros(len(A), dtype=np.int32)
        similarity = A + KERNEL_WEIGHT * build_affinity(X, "rbf")
        if self.method == "average":
            linkage = AgglomerativeClustering(
                self.n_clusters, metric="precomputed", linkage="average"
            )
            return linkage.fit_predict(similarity.max() - similarity)
        spectral = FairSpectralClustering(self.n_clusters, affinity="precomputed", random_state=rng)
        with fairness_warnings_ignored():  # about the one group that blind clustering has
            return spectral.fit_predict(
                similarity, sensitive_features=np.zeros(len(A)), sample_weight=weights
            )
