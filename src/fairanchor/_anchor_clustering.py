"""The framework: any clusterer on a few anchors, carried to all rows with exact composition.

Start reading at `AnchorFairClustering.fit`; it is the paper in four steps. Rows are opened in
`_open_rows.py`, parameters are resolved in `_anchor_parameters.py`, attributes are stored in
`_store_fit.py`, and what comes after the fit (`predict`, `save`, ...) is in `_fitted_anchors.py`.
"""

import numpy as np
from sklearn.utils import check_random_state

from fairanchor._anchor_parameters import (
    AS_IN_PAPER,
    CONSTRAINTS,
    SOLVERS,
    refine_steps,
    targets_and_rule,
)
from fairanchor._fairness_rule import check_request
from fairanchor._fitted_anchors import FittedAnchors
from fairanchor._open_rows import draw_rows, open_rows, samples_of
from fairanchor._propagation import Refinement, needs_soft_labels, propagate
from fairanchor._sensitive_names import store_titles, titles_at_fit
from fairanchor._shared_state import with_one_blas_thread
from fairanchor._sklearn_compat import fit_context
from fairanchor._store_fit import store_assignment, store_graph, store_limits, store_model
from fairanchor.anchors import select_anchors
from fairanchor.clusterers._on_anchors import cluster_anchors, minimum_size, warn_if_small
from fairanchor.clusterers._registry import check_clusterer
from fairanchor.graph import AnchorGraphProblem, AnchorSummary, check_targets, warn_not_converged


class AnchorFairClustering(FittedAnchors):
    """Cluster any number of rows with any clusterer, with an exact composition of groups.

    Four steps, each linear in the number of rows:

    1. *anchors*: a few rows that stand for all, with a quota for each group;
    2. *anchor clustering*: any (fair) clusterer labels the anchors;
    3. *anchor graph*: every row becomes a convex combination z of the anchors H::

           minimise  sum_i ||x_i - H'z_i||^2 + alpha ||z_i||^2
           subject to  the weight of group r on the anchors of cluster l is targets[l, r]

       solved exactly through its dual, which has one unknown per cluster and group;
    4. *propagation*: the weights on each cluster's anchors are soft labels, and a
       transportation problem turns them into labels with exact counts.

    A tolerance or limits (`FairnessTargets`) take the place of targets in steps 3 and 4: the graph
    gets the targets within them that change it least, the labels are the best within them.

    *Guaranteed for the labels* with ``assignment="balanced"``: cluster sizes and group sizes
    are exact, and every cell of the table clusters × groups is its target, rounded up or
    down. With ``fairness="population"`` the target is the population's composition, so no
    clustering of the same data can have a larger balance than these targets have.
    *Not guaranteed*: the least possible cost, and the composition of rows that are predicted
    later.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    clusterer : str, estimator or callable, default="fair_kmeans"
        What labels the anchors: ``"fair_kmeans"``, ``"spfc"``, ``"vfc"``, ``"fmsc"``,
        ``"fairlets"``, ``"ffc"`` or ``"bounded"`` for the estimators of this library with their
        defaults; an estimator with ``fit`` and ``labels_`` or ``predict``, which is cloned, given
        ``n_clusters`` and, if it has none, ``random_state``; or a callable
        ``f(anchors, sensitive_features, n_clusters, *, sample_weight, random_state)``. They see
        groups as integers, the largest group being 0, if ``fit`` names ``sensitive_features``, and
        masses if it names ``sample_weight``.
    n_anchors : int or "auto", default="auto"
        Number of anchors; by default 20 per group, at least 4 per cluster. Not used when
        ``anchors`` holds row indices.
    anchors : {"kmeans", "fdas", "das", "random"} or array of row indices, default="kmeans"
        How anchors are selected: medoids of k-means within each group, the paper's FDAS, its
        ancestor DAS, or at random; the last two are blind to groups.
    quotas : {"balanced", "paper"}, default="balanced"
        Seats of the groups: proportional with at least ``min(n_clusters, group size)`` each, or
        the paper's rule, which is not proportional.
    anchor_weights : {"mass", "uniform"}, default="mass"
        Whether the clusterer sees each anchor with the number of rows it stands for (anchors
        that stand for hardly any are left out), or all alike as in the paper.
    alpha : float, default=10.0
        Ridge weight of the anchor graph, in squared units of the features.
    fairness : {"population", "anchors", "anchors_sized", "paper"}, array of shape \
(n_clusters, n_groups), or FairnessTargets, default="population"
        The targets: every cluster mirrors the population; each group is spread over the
        clusters as its anchors are; the same fitted to the sizes that the anchors stand for; the
        paper's literal form (infeasible unless quotas are proportional, so it needs
        ``solver="admm"``); or a table of sample counts. `FairnessTargets` are limits on shares
        and sizes in place of targets; with separate attributes a list of them, one per column.
    tolerance : float in [0, 1], default=0.0
        By how much a group's share of a cluster may differ from the share s that ``fairness``
        asks for: it is in ``[(1 - tolerance) s, s / (1 - tolerance)]``, and sizes are free.
        0 asks for the targets themselves, 1 for nothing.
    attributes : {"intersection", "separate"}, default="intersection"
        Whether several columns of ``sensitive_features`` are one attribute, whose groups are the
        combinations, or each is an attribute that the clusters mirror by itself.
    assignment : {"balanced", "argmax"}, default="balanced"
        Exact counts, or each row's largest soft label, which keeps no promise.
    refine : int or "auto", default="auto"
        Fair Lloyd steps after propagation: 20 for ``clusterer="fair_kmeans"``, none for others. On
        large tables as many are taken on samples before, which leaves few for all rows.
        With the population as target, a tolerance or limits the sizes are free in these steps,
        otherwise the targets stay. They change the labels, not the anchor graph's soft labels.
    min_cluster_size : float or "auto", default="auto"
        Least number of rows of a cluster: by default ``max(20 n / smallest group, 0.005 n)``, at
        most ``n / (2 n_clusters)``. Targets copied from anchors, or given, can be smaller; a
        warning says so.
    missing_groups : {"error", "own_group"}, default="error"
        What missing values of ``sensitive_features`` mean.
    unknown_groups : {"error", "blind"}, default="error"
        What `predict` does with a group that `fit` has not seen: refuse it, or use the
        population's average prices.
    solver : {"newton", "admm"}, default="newton"
        The exact dual method, or the paper's ADMM with Frank-Wolfe steps.
    graph_rows : {"auto", "all"}, default="auto"
        Rows on which the anchor graph is solved. Where a refinement follows, its soft labels only
        have to show where to begin, and of a large table a sample is enough ("auto"): 6,000 to
        100,000 rows that stand for all, at least 2,000 of each group. With "all" every row is
        solved, and the certificates are those of all rows; the refined labels are the same. Without
        a refinement, and by ``solver="admm"``, every row always is.
    max_iter : int, default=None
        Largest number of sweeps of the solver over the rows, and over each sample that large
        tables start from; by default 100.
    tol : float, default=1e-3
        Largest error of a cell's soft mass, relative to its group's size, on the rows on which the
        anchor graph is solved.
    n_jobs : int, default=None
        Number of threads; the result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Determines anchors and clusterer.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each row. Not there for datasets and Dask collections of more than a million
        rows, which are worked on in chunks: see `iter_labels` and `write_labels`.
    groups_ : ndarray of shape (n_groups,)
        Names of the groups, sorted: the columns of all tables.
    counts_, targets_ : ndarray of shape (n_clusters, n_groups)
        Rows in each cell, and what was asked for; after refinement, in its last step.
    balance_ : float
        Smallest group over largest group in the worst cluster.
    worst_violation_ : float
        Largest ``|counts_ - targets_|``, in samples; below 1 with ``assignment="balanced"``. With a
        tolerance, limits or separate attributes: by how many samples the worst cell misses its
        limits (``targets_`` are then the numbers chosen within them).
    attribute_groups_, attribute_counts_, attribute_violations_ : dict
        With ``attributes="separate"``, by the title of the column (or its number): its groups,
        rows in each cell, and rows by which its worst cell misses its limits.
    anchor_indices_, anchors_, anchor_masses_, anchor_labels_ : ndarrays
        Rows chosen as anchors, their features, the weight each stands for, their clusters.
    clusterer_ : estimator or None
        The fitted clusterer of the anchors.
    multipliers_ : ndarray of shape (n_clusters, n_groups)
        Prices in the anchor graph.
    assignment_prices_ : ndarray of shape (n_clusters, n_groups)
        Prices of the labels: `predict` adds them to soft labels (subtracts them from squared
        distances if there was a refinement).
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        Means of the clusters; after a refinement, the centres to which the labels are the best
        fair assignment (the means themselves once it has converged).
    inertia_ : float
        Sum of squared distances of the rows to their centres.
    mass_error_ : float
        Largest error of a cell's soft mass against the targets of the anchor graph, in samples;
        where the graph was solved on a sample, of the rows that stand for all.
    duality_gap_, assignment_gap_ : float
        Certificates of the anchor graph (on ``n_graph_rows_`` rows, as ``mass_error_``) and of the
        assignment (of all rows); both are zero at an optimum. The first is below zero where soft
        labels gain by their ``mass_error_``. Within limits the second is what the labels cost
        more than the linear program over fractional labels, for the same soft labels or centres;
        below zero where they gain by missing limits by a part of a row.
    converged_ : bool
        Whether the anchor graph met its tolerance.
    n_graph_rows_ : int
        Number of rows on which the anchor graph was solved: all, or a sample that stands for
        all; see ``graph_rows``.
    n_iter_ : int
        Sweeps of the solver over these rows; those over the smaller samples that large tables
        start from are not counted.
    n_clusters_found_ : int
        Number of clusters with at least one row.
    history_ : list of dict
        One record per iteration of the solver.
    n_features_in_ : int
        Number of features.
    sensitive_names_in_ : ndarray of shape (n_columns,)
        Titles of the sensitive columns, only if all of them are text that differs. `predict` pairs
        the columns of a table by them, in whatever order they are.

    Examples
    --------
    >>> from fairanchor import AnchorFairClustering
    >>> from fairanchor.datasets import make_zafar
    >>> data = make_zafar(2000, variant="original", random_state=0)
    >>> model = AnchorFairClustering(2, random_state=0)
    >>> model = model.fit(data.data, sensitive_features=data.sensitive_features)
    >>> bool(model.worst_violation_ < 1)
    True
    """

    _parameter_constraints = CONSTRAINTS

    def __init__(
        self,
        n_clusters=8,
        *,
        clusterer="fair_kmeans",
        n_anchors="auto",
        anchors="kmeans",
        quotas="balanced",
        anchor_weights="mass",
        alpha=10.0,
        fairness="population",
        tolerance=0.0,
        attributes="intersection",
        assignment="balanced",
        refine="auto",
        min_cluster_size="auto",
        missing_groups="error",
        unknown_groups="error",
        solver="newton",
        graph_rows="auto",
        max_iter=None,
        tol=1e-3,
        n_jobs=None,
        random_state=None,
    ):
        self.n_clusters = n_clusters
        self.clusterer = clusterer
        self.n_anchors = n_anchors
        self.anchors = anchors
        self.quotas = quotas
        self.anchor_weights = anchor_weights
        self.alpha = alpha
        self.fairness = fairness
        self.tolerance = tolerance
        self.attributes = attributes
        self.assignment = assignment
        self.refine = refine
        self.min_cluster_size = min_cluster_size
        self.missing_groups = missing_groups
        self.unknown_groups = unknown_groups
        self.solver = solver
        self.graph_rows = graph_rows
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state

    @classmethod
    def as_in_paper(cls, n_clusters=8, *, clusterer="spfc", alpha=1.0, **parameters):
        """The setting of the paper, for comparison.

        FDAS anchors with the paper's quotas, all alike to the clusterer; the literal targets;
        ADMM with Frank-Wolfe steps; argmax. A target that cannot be met, which is the rule, ends
        in a ConvergenceWarning.

        Parameters
        ----------
        n_clusters : int, default=8
            Number of clusters.
        clusterer : str, estimator or callable, default="spfc"
            What labels the anchors.
        alpha : float, default=1.0
            Ridge weight of the anchor graph.
        **parameters
            Any other parameter of the class.

        Returns
        -------
        estimator : AnchorFairClustering
            Not fitted yet.
        """
        return cls(n_clusters, clusterer=clusterer, alpha=alpha, **(AS_IN_PAPER | parameters))

    @fit_context(prefer_skip_nested_validation=False)
    @with_one_blas_thread
    def fit(self, X, y=None, *, sensitive_features=None, sample_weight=None):
        """Cluster the rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), dataset or Dask collection
            Rows to cluster: in memory, in the Parquet or Arrow files of a pyarrow dataset, or in a
            Dask DataFrame or array, whose client must be open.
        y : Ignored
            Present for API consistency.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            Group of each row; what several columns mean, ``attributes`` says. Without it all rows
            are one group, and a warning says so. For datasets and Dask DataFrames the name of a
            column or a list of names; all other columns are features.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row; targets and counts are then in weight.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        request = (self.fairness, self.tolerance, self.attributes, self.solver, self.assignment)
        check_request(*request)
        rows, groups, units, attributes = open_rows(self, X, sensitive_features, sample_weight)
        refine = refine_steps(self)
        # Targets that are copied from the anchors must not be loosened twice.
        mirrors = isinstance(self.fairness, str) and self.fairness == "population"
        clusterer = check_clusterer(self.clusterer, tolerance=self.tolerance if mirrors else 0.0)
        min_size = minimum_size(self.min_cluster_size, rows, self.n_clusters, units.weight)
        # Groups and rows draw from one seed, so that neither names nor order matter.
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)

        # 1. Fair anchor generation: every group gets its seats, every anchor its mass.
        solver = SOLVERS[self.solver](max_iter=self.max_iter, tol=self.tol)
        distinct = rows.merged() if solver.is_exact else rows  # ADMM's residuals count rows
        drawn = draw_rows(self, rows, groups)
        anchors = select_anchors(
            rows, groups, self.anchors, self.n_anchors, self.quotas, self.n_clusters, seed,
            distinct=distinct, drawn=drawn,
        )  # fmt: skip
        samples = samples_of(self, rows, distinct, drawn, anchors)

        # 2. Anchor fair clustering: any clusterer, and it only ever sees the anchors.
        weighted = self.anchor_weights == "mass"
        anchor_labels, fitted = cluster_anchors(
            clusterer, anchors, self.n_clusters, weighted=weighted, min_size=min_size, seed=seed
        )

        # 3. Fair anchor graph: multipliers such that every cluster gets its mass of each group.
        problem = AnchorGraphProblem(
            anchors.points, anchor_labels, self.n_clusters, self.alpha * units.length**2
        )
        summary = AnchorSummary.of(anchors, anchor_labels, self.n_clusters, rows, min_size)
        targets, rule = targets_and_rule(
            self, problem, distinct, summary, groups, attributes, units
        )
        check_targets(targets, summary, groups, feasible=solver.is_exact)
        refinement = Refinement(refine, mirrors, min_size, rule)
        keep = needs_soft_labels(refinement, samples)
        every_row = keep or self.graph_rows == "all"
        graph = solver.solve(
            problem, distinct, targets, samples, keep_soft_labels=keep, every_row=every_row
        )
        warn_not_converged(graph)

        # 4. Propagation: soft labels to labels whose counts are exact.
        propagated = propagate(self.assignment, graph, distinct, targets, samples, refinement)

        self.clusterer_ = fitted
        store_graph(self, rows, units, anchors, problem, graph)
        store_assignment(self, rows, groups, units, propagated)
        store_titles(self, titles_at_fit(X, sensitive_features))
        store_limits(self, rows, groups, attributes, units, propagated, rule)
        store_model(self, distinct, groups, problem, targets, graph, propagated, rule)
        is_named = isinstance(self.fairness, str)
        warn_if_small(self.counts_, min_size * units.weight if is_named else 0.0)
        return self
