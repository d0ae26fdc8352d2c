"""The framework: any clusterer on a few anchors, carried to all rows with exact composition.

Start reading at `AnchorFairClustering.fit`; it is the paper in four steps.
"""

from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from fairanchor._attributes import Attributes
from fairanchor._fairness_rule import (
    allowed_cells,
    check_request,
    has_limits,
    is_limits,
    nearest_targets,
    rule_of,
)
from fairanchor._fairness_targets import FairnessTargets
from fairanchor._groups import check_groups, warn_one_group
from fairanchor._model import AnchorModel
from fairanchor._propagation import Refinement, needs_soft_labels, propagate
from fairanchor._scaling import power_of_two_scale
from fairanchor._sklearn_compat import (
    HasMethods,
    Interval,
    StrOptions,
    check_weights,
    fit_context,
    set_feature_names,
)
from fairanchor.anchors import (
    anchor_seats,
    nearest_anchor_finder,
    rows_to_draw,
    select_anchors,
)
from fairanchor.assignment._propagate import ASSIGNMENTS
from fairanchor.clusterers._attribute_report import AttributeReport, unseen_combinations
from fairanchor.clusterers._base import FairClusterer, check_n_clusters, check_rows, known_codes
from fairanchor.clusterers._fair_lloyd import distances_to
from fairanchor.clusterers._on_anchors import cluster_anchors, minimum_size, warn_if_small
from fairanchor.clusterers._registry import CLUSTERERS, check_clusterer
from fairanchor.graph import (
    ADMMSolver,
    AnchorGraphProblem,
    AnchorSummary,
    NewtonSolver,
    check_targets,
    fairness_targets,
    sufficient_multipliers,
    warn_not_converged,
)
from fairanchor.graph._row_solvers import choose_row_solver
from fairanchor.graph._targets import TARGETS
from fairanchor.metrics import balance_of_table
from fairanchor.rows import (
    ChunkedRows,
    MemoryChunks,
    MemoryRows,
    _chunks,
    draw_for_samples,
    samples_of_drawn,
    stand_in_samples,
    with_one_blas_thread,
)
from fairanchor.rows._journal import identity_of_run
from fairanchor.rows._label_files import LabelsElsewhere
from fairanchor.rows._open import kind_of, source_of
from fairanchor.rows._stream import as_table

SOLVERS = {"newton": NewtonSolver, "admm": ADMMSolver}
# Fair Lloyd steps after propagation; a clusterer that does not minimise the k-means cost
# would lose what it was chosen for.
DEFAULT_REFINE = {"fair_kmeans": 20}


class AnchorFairClustering(ClassNamePrefixFeaturesOutMixin, TransformerMixin, FairClusterer):
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
    max_iter : int, default=None
        Largest number of sweeps of the solver over the rows, and over each sample that large
        tables start from; by default 100.
    tol : float, default=1e-3
        Largest error of a cell's soft mass, relative to its group's size.
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
        Largest error of a cell's soft mass against the targets of the anchor graph, in samples.
    duality_gap_, assignment_gap_ : float
        Certificates of the anchor graph and of the assignment; both are zero at an optimum. Within
        limits the second is what the labels cost more than the linear program over fractional
        labels, for the same soft labels or centres.
    converged_ : bool
        Whether the anchor graph met its tolerance.
    n_iter_ : int
        Sweeps of the solver over all rows; those over the samples that large tables start from
        are not counted.
    n_clusters_found_ : int
        Number of clusters with at least one row.
    history_ : list of dict
        One record per iteration of the solver.
    n_features_in_ : int
        Number of features.

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

    __metadata_request__predict = {"sensitive_features": True}
    __metadata_request__predict_proba = {"sensitive_features": True}
    __metadata_request__transform = {"sensitive_features": True}
    __metadata_request__score = {"sensitive_features": True, "sample_weight": True}

    _parameter_constraints = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "clusterer": [StrOptions(set(CLUSTERERS)), callable, HasMethods("fit")],
        "n_anchors": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "anchors": [StrOptions({"kmeans", "fdas", "das", "random"}), "array-like"],
        "quotas": [StrOptions({"balanced", "paper"})],
        "anchor_weights": [StrOptions({"mass", "uniform"})],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "fairness": [StrOptions(set(TARGETS)), "array-like", FairnessTargets],
        "tolerance": [Interval(Real, 0, 1, closed="both")],
        "attributes": [StrOptions({"intersection", "separate"})],
        "assignment": [StrOptions(set(ASSIGNMENTS))],
        "refine": [Interval(Integral, 0, None, closed="left"), StrOptions({"auto"})],
        "min_cluster_size": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "missing_groups": [StrOptions({"error", "own_group"})],
        "unknown_groups": [StrOptions({"error", "blind"})],
        "solver": [StrOptions(set(SOLVERS))],
        "max_iter": [None, Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "n_jobs": [None, Integral],
        "random_state": ["random_state"],
    }

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
        setting = {
            "anchors": "fdas",
            "quotas": "paper",
            "anchor_weights": "uniform",
            "fairness": "paper",
            "assignment": "argmax",
            "refine": 0,
            "min_cluster_size": 0,
            "solver": "admm",
            "max_iter": 100,
        }
        return cls(n_clusters, clusterer=clusterer, alpha=alpha, **(setting | parameters))

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
        rows, groups, units, attributes = self._as_rows(X, sensitive_features, sample_weight)
        refine = self._refine_steps()
        # Targets that are copied from the anchors must not be loosened twice.
        mirrors = isinstance(self.fairness, str) and self.fairness == "population"
        clusterer = check_clusterer(self.clusterer, tolerance=self.tolerance if mirrors else 0.0)
        min_size = minimum_size(self.min_cluster_size, rows, self.n_clusters, units.weight)
        # Groups and rows draw from one seed, so that neither names nor order matter.
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)

        # 1. Fair anchor generation: every group gets its seats, every anchor its mass.
        solver = SOLVERS[self.solver](max_iter=self.max_iter, tol=self.tol)
        distinct = rows.merged() if solver.is_exact else rows  # ADMM's residuals count rows
        drawn = self._drawn(rows, groups)
        anchors = select_anchors(
            rows, groups, self.anchors, self.n_anchors, self.quotas, self.n_clusters, seed,
            distinct=distinct, drawn=drawn,
        )  # fmt: skip
        samples = self._samples(rows, distinct, drawn, anchors)

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
        targets, rule = self._asked(problem, distinct, summary, groups, attributes, units)
        check_targets(targets, summary, groups, feasible=solver.is_exact)
        refinement = Refinement(refine, mirrors, min_size, rule)
        keep = needs_soft_labels(refinement, samples)
        graph = solver.solve(problem, distinct, targets, samples, keep_soft_labels=keep)
        warn_not_converged(graph)

        # 4. Propagation: soft labels to labels whose counts are exact.
        propagated = propagate(self.assignment, graph, distinct, targets, samples, refinement)

        self.clusterer_ = fitted
        self._store_graph(units, anchors, problem, graph)
        self._store_assignment(rows, groups, units, propagated)
        self._store_limits(rows, groups, attributes, units, propagated, rule)
        self._store_model(distinct, groups, problem, targets, graph, propagated, rule)
        if isinstance(self.fairness, str):
            warn_if_small(self.counts_, min_size * units.weight)
        return self

    def fit_predict(self, X, y=None, *, sensitive_features=None, sample_weight=None):
        """Fit and return the labels of all rows, also of rows that are not in memory.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), dataset or Dask collection
            Rows to cluster.
        y : Ignored
            Present for API consistency.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            Group of each row, or names of columns; see `fit`.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Cluster of each row.
        """
        self.fit(X, sensitive_features=sensitive_features, sample_weight=sample_weight)
        return self.labels_ if self._agreed is None else np.concatenate(list(self._agreed))

    def __sklearn_is_fitted__(self):
        return hasattr(self, "_model")

    def __getstate__(self):
        # Rows that are elsewhere, a cluster's client above all, cannot be stored.
        return super().__getstate__() | {"_agreed": None}

    def predict(self, X, *, sensitive_features=None):
        """Cluster of new rows, by the multipliers and prices of their groups.

        On the training rows this gives ``labels_``, but for ties (and, with ``solver="admm"``, but
        for the error of its last iteration; with unequal weights, but for the few rows that had
        to be rounded). New rows are labelled one by one: that their composition is fair as well is
        likely, not guaranteed.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            New rows.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            Their groups.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Cluster of each row.
        """
        rows, model = self._new_rows(X, sensitive_features)
        return model.labels(rows)

    def predict_proba(self, X, *, sensitive_features=None):
        """Soft labels of new rows: their weight on the anchors of each cluster.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            New rows.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            Their groups.

        Returns
        -------
        soft_labels : ndarray of shape (n_samples, n_clusters)
            Rows on the simplex. They belong to the anchor graph: `predict` also uses prices,
            and the centres of the refinement, so that its answer need not be the largest.
        """
        rows, model = self._new_rows(X, sensitive_features)
        return model.soft_labels(rows)

    def transform(self, X, *, sensitive_features=None):
        """Anchor weights Z of new rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            New rows.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            Their groups.

        Returns
        -------
        Z : csr_array of shape (n_samples, n_anchors)
            Rows on the simplex.
        """
        rows, model = self._new_rows(X, sensitive_features)
        return model.anchor_weights(rows)

    def fit_transform(self, X, y=None, *, sensitive_features=None, sample_weight=None):
        """Fit, and return the anchor weights of the same rows; see `fit` and `transform`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to cluster.
        y : Ignored
            Present for API consistency.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            Group of each row.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.

        Returns
        -------
        Z : csr_array of shape (n_samples, n_anchors)
            Rows on the simplex.
        """
        self.fit(X, sensitive_features=sensitive_features, sample_weight=sample_weight)
        return self.transform(X, sensitive_features=sensitive_features)

    def score(self, X, y=None, *, sensitive_features=None, sample_weight=None):
        """Minus the k-means cost of the rows under `predict`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : Ignored
            Present for API consistency.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            Their groups.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.

        Returns
        -------
        score : float
            The larger, the better.
        """
        rows, model = self._new_rows(X, sensitive_features)
        distances = distances_to(rows, model.centers)
        own = distances[np.arange(rows.n_rows), model.labels(rows)]
        weights = check_weights(sample_weight, rows.X)
        cost = own.sum() if weights is None else weights @ own
        return -float(cost) / self._scale / self._scale

    def save(self, path, *, force=False):
        """Write the fitted model to a file, whole or not at all; see `load_model`.

        Parameters
        ----------
        path : str or path-like
            The file, usually ``.npz``.
        force : bool, default=False
            Whether an existing file may be replaced.
        """
        from fairanchor._model_file import save_model  # which imports this module

        save_model(self, path, force=force)

    def write_labels(self, path, *, force=False):
        """Write the labels of the rows that `fit` read from a dataset or a Dask collection.

        A folder of Parquet files that have the names and the row order of the input's, with
        the columns ``row`` (number of the row in its file) and ``cluster``. Labels are
        computed in one more pass, chunk by chunk, and never gathered.

        Parameters
        ----------
        path : str or path-like
            The folder, which appears when it is complete.
        force : bool, default=False
            Whether an existing folder of labels may be replaced.
        """
        self._labels_elsewhere().write(path, force=force)

    def iter_labels(self):
        """Labels of the rows that `fit` read from a dataset or a Dask collection.

        Yields
        ------
        labels : ndarray of shape (n_chunk_rows,)
            Of one chunk after the other, in row order.
        """
        yield from self._labels_elsewhere()

    def _labels_elsewhere(self):
        check_is_fitted(self)
        elsewhere = self.__dict__.get("_agreed")
        if elsewhere is None:
            if not hasattr(self, "labels_"):
                raise ValueError(
                    "This model was loaded or copied: it does not know the rows that it was fitted "
                    "to. Label them with predict, or fit again."
                )
            raise ValueError(
                "The rows were in memory: their labels are in labels_. Labels are written chunk by "
                "chunk for datasets and Dask collections of more than one chunk."
            )
        return elsewhere

    def _as_rows(self, X, sensitive_features, sample_weight):
        """Checked rows, scaled by a power of two if squares would leave the range of doubles."""
        source = None
        if kind_of(X) is not None:
            source = source_of(X, sensitive_features)
            if source.n_rows > _chunks.CHUNK_ROWS:
                return self._rows_elsewhere(source, sensitive_features, sample_weight)
            self._journal_of(source)
            X, columns = source.read(self.missing_groups)
            sensitive_features = as_table(columns) if columns else None
        X = check_rows(self, X)
        if source is not None:
            set_feature_names(self, source.feature_names, X.shape[1])
        check_n_clusters(self.n_clusters, len(X))
        groups = check_groups(sensitive_features, len(X), missing=self.missing_groups)
        attributes = None
        if self.attributes == "separate":
            attributes = Attributes.of(sensitive_features, groups)
        weights = check_weights(sample_weight, X)
        units = _Units(length=power_of_two_scale(X))
        X = X if units.length == 1.0 else X * units.length
        if weights is not None and np.ptp(weights) == 0.0:
            # Equal weights are counts in another unit, and counts can be met exactly.
            weights, units = None, _Units(units.length, weight=float(weights[0]))
        rows = MemoryRows(X, groups.codes, groups.n_groups, weights=weights, n_jobs=self.n_jobs)
        if self._can_be_in_chunks() and weights is None:
            rows = rows.in_chunks()
        return rows, groups, units, attributes

    def _rows_elsewhere(self, source, sensitive_features, sample_weight):
        """Rows of a dataset or of a Dask collection, a chunk at a time."""
        if sample_weight is not None:
            raise ValueError(
                "sample_weight is given for rows that are not in memory: weights are kept for "
                "tables in memory only."
            )
        if has_limits(self.fairness, self.tolerance, self.attributes):
            raise ValueError(
                f"tolerance={self.tolerance}, fairness={self.fairness!r} and attributes="
                f"{self.attributes!r} need all rows in memory, and there are {source.n_rows:,}. "
                "Rows in chunks are for tolerance=0, a named fairness or a table, and "
                "attributes='intersection'."
            )
        if not self._can_be_in_chunks():
            raise ValueError(
                f"solver={self.solver!r} with assignment={self.assignment!r} needs all rows in "
                f"memory, and there are {source.n_rows:,}. Use solver='newton' and "
                "assignment='balanced'."
            )
        check_n_clusters(self.n_clusters, source.n_rows)
        if sensitive_features is None:
            warn_one_group(stacklevel=7)
        journal = self._journal_of(source)  # refuses another run's before any row is read
        opened = source.open(self.missing_groups, self.n_jobs, self.n_clusters)
        opened.rows.journal, opened.rows.progress = journal, source.progress
        set_feature_names(self, source.feature_names, opened.rows.n_features)
        return opened.rows, opened.groups, _Units(length=opened.scale), None

    def _journal_of(self, source):
        """Where the run's checkpoint is kept, if there is to be one."""
        if source.checkpoint is None:
            return None
        parameters = self.get_params(deep=False)
        return source.checkpoint(
            identity_of_run(parameters, source.fingerprint(), _chunks.CHUNK_ROWS)
        )

    def _can_be_in_chunks(self):
        """Whether nothing that was asked for needs all rows in memory at once."""
        if has_limits(self.fairness, self.tolerance, self.attributes):
            return False
        return SOLVERS[self.solver].is_exact and self.assignment == "balanced"

    def _asked(self, problem, rows, summary, groups, attributes, units):
        """Targets of the anchor graph, and limits on the labels if they do not have the targets."""
        named = isinstance(self.fairness, str)
        # Limits say nothing about the anchors: how these are sized does not matter then.
        table = self.fairness if named or not is_limits(self.fairness) else "population"
        targets = fairness_targets(table, summary, groups, unit=units.weight)
        rule = rule_of(
            self.fairness, self.tolerance, attributes, groups, rows,
            min_size=summary.min_size, targets=targets, unit=units.weight,
        )  # fmt: skip
        return (targets, None) if rule is None else (nearest_targets(rule, problem, rows), rule)

    def _new_rows(self, X, sensitive_features):
        """Checked new rows in the fitted scale, and the model that labels them."""
        check_is_fitted(self)
        if kind_of(X) is not None:
            raise TypeError(
                f"X is a {type(X).__name__}, expected rows in memory. Give new rows a part at a "
                "time; the labels of the rows that were fitted are written by write_labels."
            )
        X = check_rows(self, X, reset=False)
        extra = unseen_combinations(self, sensitive_features)
        codes = known_codes(
            self,
            sensitive_features,
            len(X),
            unknown_groups=self.unknown_groups,
            missing_groups=self.missing_groups,
            extra=extra,
        )
        model = self._model
        if X.shape[1] != model.centers.shape[1]:
            raise ValueError(
                f"X has {X.shape[1]} features, expected the {model.centers.shape[1]} of the last "
                "successful fit."
            )
        for prices in extra.values():
            model = model.with_blind_group(prices)
        if (codes < 0).any():
            codes = np.where(codes < 0, len(model.shares), codes)
            model = model.with_blind_group()
        X = X if self._scale == 1.0 else X * self._scale
        return MemoryRows(X, codes, len(model.shares), n_jobs=self.n_jobs), model

    def _refine_steps(self):
        """Number of fair Lloyd steps after propagation."""
        if isinstance(self.refine, str):
            named = self.clusterer if isinstance(self.clusterer, str) else None
            return DEFAULT_REFINE.get(named, 0) if self.assignment == "balanced" else 0
        if self.refine > 0 and self.assignment != "balanced":
            raise ValueError(
                f"refine={self.refine} needs assignment='balanced', got {self.assignment!r}: every "
                "refinement step is a balanced assignment."
            )
        return self.refine

    def _drawn(self, rows, groups):
        """Rows in chunks are looked at once, for anchors and samples alike."""
        if not isinstance(rows, ChunkedRows):
            return None
        wanted = np.zeros(rows.n_groups)
        if isinstance(self.anchors, str):
            given = (self.anchors, self.n_anchors, self.quotas, self.n_clusters)
            seats = anchor_seats(groups, *given)
            wanted = rows_to_draw(rows.group_sizes, self.anchors, seats)
        return draw_for_samples(rows, least_rows=50 * self.n_clusters, least_per_group=wanted)

    def _samples(self, rows, distinct, drawn, anchors):
        """Samples that stand for all rows; cells are known where every group has anchors."""
        options = {"least_rows": 50 * self.n_clusters}
        if len(np.unique(anchors.group_codes)) == rows.n_groups:
            options["cell_of"] = nearest_anchor_finder(
                anchors.points, anchors.group_codes, rows.n_groups
            )
            options["cell_weights"] = anchors.masses
        if drawn is not None:
            return samples_of_drawn(rows, drawn, **options)
        return stand_in_samples(rows, distinct, **options)

    def _store_graph(self, units, anchors, problem, graph):
        """Attributes of the anchors and of the anchor graph, in the user's units."""
        scale = units.length
        self.anchor_indices_ = anchors.indices
        self.anchors_ = anchors.points / scale
        self.anchor_masses_ = anchors.masses * units.weight
        self.anchor_labels_ = problem.anchor_labels
        self._n_features_out = len(anchors.indices)
        self.mass_error_ = graph.mass_error * units.weight
        self.duality_gap_ = graph.duality_gap / scale / scale
        self.converged_ = graph.converged
        self.n_iter_ = graph.n_iter
        self.history_ = graph.history_in_units_of(scale)

    def _store_assignment(self, rows, groups, units, propagated):
        """Attributes of the labels, tables with the groups in the order of ``groups_``."""
        self._agreed = None
        if isinstance(propagated.labels, np.ndarray):
            is_weighted = rows.is_weighted or units.weight != 1.0
            weights = rows.weights * units.weight if is_weighted else None
            self._store_labels(propagated.labels, groups, weights)
        else:
            self._store_agreed(rows, propagated.labels, groups, units)
        self._scale = scale = units.length
        price_unit = scale if propagated.by_distance else 1.0
        self.targets_ = groups.to_public(propagated.targets) * units.weight
        self.worst_violation_ = float(np.abs(self.counts_ - self.targets_).max())
        self.n_clusters_found_ = int(np.count_nonzero(self.counts_.sum(axis=1)))
        self.assignment_prices_ = groups.to_public(propagated.prices) / price_unit / price_unit
        self.assignment_gap_ = propagated.gap / price_unit / price_unit
        self.cluster_centers_ = propagated.centers / scale
        self.inertia_ = propagated.cost * units.weight / scale / scale

    def _store_limits(self, rows, groups, attributes, units, propagated, rule):
        """By how much what was asked for is missed, in all and by attribute."""
        if rule is not None:
            counts = groups.from_public(self.counts_)
            counts = counts if units.weight == 1.0 else counts / units.weight
            report = AttributeReport.of(rule, attributes, counts, propagated)
        else:
            tables = [] if attributes is None else [self.counts_]
            missed = [self.worst_violation_ / units.weight]
            report = AttributeReport(attributes, tables, missed, [])
        report.store(self, units.weight)
        if rule is not None and not rows.is_weighted:
            report.warn_if_missed()

    def _store_agreed(self, rows, agreed, groups, units):
        """Labels that are a function of the rows: written out where the rows are in memory."""
        self.groups_ = groups.public_names
        self.counts_ = groups.to_public(agreed.totals)
        if units.weight != 1.0:
            self.counts_ = self.counts_ * units.weight
        self.balance_ = balance_of_table(agreed.totals)
        if isinstance(rows, MemoryChunks):
            self.labels_ = np.concatenate(list(LabelsElsewhere(rows, agreed)))
        else:
            self._agreed = LabelsElsewhere(rows, agreed)
            # Of an earlier fit, or of the file that the model was loaded from.
            for name in ("labels_", "preprocessing_"):
                self.__dict__.pop(name, None)

    def _store_model(self, rows, groups, problem, targets, graph, propagated, rule):
        """What `predict` needs, in the units of the scaled rows."""
        # ADMM excludes no anchor: its zero targets are met as nearly as all others.
        exact = SOLVERS[self.solver].is_exact
        allowed = targets > 0 if exact else np.ones_like(targets, dtype=bool)
        allowed |= targets.sum(axis=0) == 0
        if rule is not None:
            # That a group has no row in a cell does not mean that it may have none.
            allowed = allowed_cells(rule, rows.n_groups)
        multipliers, row_solver = graph.multipliers, graph.row_solver
        if exact:
            multipliers = sufficient_multipliers(problem, rows, targets, multipliers)
        if row_solver is None:
            row_solver = choose_row_solver(problem, rows, multipliers, allowed.astype(float))
        scale = self._scale
        price_unit = scale if propagated.by_distance else 1.0
        self._model = AnchorModel(
            row_solver=row_solver,
            multipliers=groups.to_public(multipliers),
            allowed_cells=groups.to_public(allowed),
            prices=self.assignment_prices_ * price_unit * price_unit,
            centers=self.cluster_centers_ * scale,
            by_distance=propagated.by_distance,
            shares=groups.to_public(rows.group_sizes) / rows.total,
        )
        self.multipliers_ = self._model.multipliers / scale / scale


@dataclass(frozen=True)
class _Units:
    """What the rows were multiplied by, and what one of them weighs."""

    length: float = 1.0
    weight: float = 1.0
