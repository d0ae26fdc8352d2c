"""The framework of the paper: any clusterer on a few anchors, carried to all rows."""

import warnings
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state

from fairanchor._utils._shared_state import users_stacklevel, with_one_blas_thread
from fairanchor._utils._sklearn_compat import (
    HasMethods,
    Interval,
    StrOptions,
    fit_context,
    wants_frame,
    without,
)
from fairanchor._utils._typing import Seed, Table, Weights
from fairanchor.anchors import FDAS, METHODS, plan_anchors, select_anchors
from fairanchor.assignment._engine import Unassigned, assign, unconstrained, with_known_costs
from fairanchor.assignment._sweep import KnownCosts, cheapest_clusters
from fairanchor.cluster._base import warn_about_small_groups
from fairanchor.cluster._fair_lloyd import cost_of, means_of, sums_in_chunks
from fairanchor.cluster._large_scale import LargeScaleClusterer
from fairanchor.cluster._on_anchors import CLUSTERERS, cluster_anchors
from fairanchor.constraints._constraint import Constraint, check_request, constraint_of
from fairanchor.constraints._fairness_targets import FairnessTargets
from fairanchor.exceptions import FairnessWarning
from fairanchor.graph import (
    AnchorGraphProblem,
    AnchorSummary,
    LocalCosts,
    LocalGraph,
    ReconstructionGraph,
    SoftLabels,
    fairness_targets,
    nearest_targets,
    sufficient_multipliers,
    warn_not_converged,
    whole_sizes,
)
from fairanchor.graph._targets import TARGETS
from fairanchor.rows._sums import label_sums

# Clusters below this share of the rows, and below this part of the average, are reported.
SMALL_SHARE, SMALL_PART = 0.005, 0.1
GRAPHS = {"local": LocalGraph, "reconstruction": ReconstructionGraph}
ASSIGNMENTS = ("balanced", "argmax")


class AnchorFairClustering(ClassNamePrefixFeaturesOutMixin, TransformerMixin, LargeScaleClusterer):
    """Cluster any number of rows with any clusterer, with an exact composition of groups.

    Four steps, each linear in the number of rows:

    1. *Anchors*: a few points represent all rows, with a quota for each group.
    2. *Anchor clustering*: any clusterer, fair or not, labels the anchors.
    3. *Anchor graph*: every row is connected to the anchors. In the local graph, the cost of a
       row in a cluster is its squared distance to the nearest mean of a few neighbouring anchors.
    4. *Labels*: the cheapest assignment of the rows whose clusters have the composition that was
       asked for.

    With the costs D of the graph and the targets t, the labels minimise::

        sum_i w_i D[i, label_i]
        subject to  |N[l, r] - t[l, r]| < 1   for every cluster l and group r

    where N[l, r] is the number of rows of group r in cluster l.

    *Guaranteed for the labels* with ``assignment="balanced"``: cluster sizes and group sizes
    are exact, and every cell of the table clusters × groups is its target, rounded up or
    down. With ``fairness="population"`` the target is the population's composition, so no
    clustering of the same data with clusters of these sizes is better balanced.
    *Not guaranteed*: the composition of rows that are predicted later.

    *Cost*: the clusterer on the anchors, whose time does not depend on the number of rows, and one
    product of rows and anchors.

    For compact clusters use `FairKMeans`, which is faster and minimises the k-means cost.

    Parameters
    ----------
    n_clusters : int or None, default=8
        Number of clusters. None takes the number that the clusterer finds.
    clusterer : str, estimator or callable, default=None
        Labels the anchors. None is `FairSpectralClustering`. Names are ``"spfc"``, ``"vfc"``,
        ``"fmsc"``, ``"fairlets"``, ``"ffc"``, ``"bounded"``, ``"consensus"`` and
        ``"fair_kmeans"``. An estimator
        with ``fit`` and ``labels_`` or ``predict`` is cloned and given ``n_clusters`` (or
        ``n_components``) and, if it has none, ``random_state``. A callable is
        ``f(anchors, sensitive_features, n_clusters, *, sample_weight, random_state)``. Clusterers
        see groups as integers, the largest group being 0, if ``fit`` accepts
        ``sensitive_features``, and the numbers of rows that the anchors represent if it accepts
        ``sample_weight``. Anchors that are labelled as noise (-1) join the nearest cluster, and so
        do those that represent less than a tenth of the average of their group, which clusterers
        do not see.
    anchors : {"kmeans", "fdas", "das", "random"}, FDAS or array of row indices, default="kmeans"
        Centroids of k-means within each group; the paper's FDAS (rows spread over a score), its
        ancestor DAS, or random rows, which both ignore groups; or given rows.
    n_anchors : int or "auto", default="auto"
        Number of anchors. ``"auto"``: all rows of a table with at most 1,000; otherwise 600, or
        50 per group (up to 1,000) or 4 per cluster if these are more. With the reconstruction
        graph, 20 per group as in the paper, or 4 per cluster. Ignored if ``anchors`` holds indices.
    graph : {"local", "reconstruction"}, LocalGraph or ReconstructionGraph, default="local"
        How rows are connected to anchors: by distance, or as convex combinations of anchors as
        in the paper.
    fairness : {"population", "anchors", "anchors_sized", "paper"}, array of shape \
(n_clusters, n_groups), or FairnessTargets, default="population"
        The constraint: every cluster mirrors the population; each group is spread over the
        clusters as its anchors are; the same, fitted to the sizes that the anchors represent; the
        paper's literal form (infeasible unless quotas are proportional, so it needs the ADMM
        solver); or a table of sample counts. `FairnessTargets` are bounds on shares and sizes;
        with separate attributes a list of them, one per column.
    tolerance : float in [0, 1], default=0.0
        By how much a group's share of a cluster may differ from the share s that ``fairness``
        states: it is in ``[(1 - tolerance) s, s / (1 - tolerance)]``, and sizes are free.
        0 requires the targets themselves, 1 sets no bound.
    attributes : {"intersection", "separate"}, default="intersection"
        Whether several columns of ``sensitive_features`` are one attribute, whose groups are the
        combinations, or each column is constrained separately.
    assignment : {"balanced", "argmax"}, default="balanced"
        Labels with exact counts, or each row's cheapest cluster (largest soft label), for which
        no count is guaranteed.
    min_cluster_size : float, default=None
        Least number of rows (weight) of a cluster; short for ``FairnessTargets(min_size=...)``.
    missing_groups : {"error", "own_group"}, default="error"
        What missing values of ``sensitive_features`` mean.
    unknown_groups : {"error", "blind"}, default="error"
        What `predict` does with a group that `fit` has not seen: raise an error, or use the
        population's average prices.
    n_jobs : int, default=None
        Number of threads; the result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Determines anchors and clusterer.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each row. Not set if X is a dataset or Dask collection with more than 2**20
        rows; use `iter_labels` or `write_labels`.
    groups_ : ndarray of shape (n_groups,)
        Names of the groups, sorted: the columns of all tables.
    counts_, targets_ : ndarray of shape (n_clusters, n_groups)
        Rows in each cell, and their targets (within bounds, the table that was chosen).
    balance_ : float
        Smallest group over largest group in the worst cluster.
    worst_violation_ : float
        Largest ``|counts_ - targets_|``, in samples; below 1 with ``assignment="balanced"``. With
        a tolerance, bounds or separate attributes: by how many samples the worst cell misses its
        bounds.
    attribute_groups_, attribute_counts_, attribute_violations_ : dict
        With ``attributes="separate"``, by the name of the column (or its number): its groups,
        rows in each cell, and rows by which its worst cell misses its bounds.
    anchors_, anchor_masses_, anchor_labels_ : ndarrays
        The anchors, the weight that each represents, their clusters. Weights (and cluster sizes
        that no constraint sets) are estimates from a sample if there are more than 2**20 rows.
    anchor_indices_ : ndarray of shape (n_anchors,)
        Rows chosen as anchors; only if anchors are rows.
    clusterer_ : estimator or None
        The fitted clusterer of the anchors. With ``clusterer="consensus"`` it has the
        ``cluster_stability_`` of the clusters and the ``row_stability_`` of the anchors.
    assignment_prices_ : ndarray of shape (n_clusters, n_groups)
        Dual variables of the labels: a row of group r is in the cluster with the least cost minus
        price (the largest soft label plus price, with ``graph="reconstruction"``).
    assignment_gap_ : float
        Cost of the labels above the least that any labels with the same counts could cost; zero,
        up to rounding errors, proves them optimal.
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        Means of the clusters.
    inertia_ : float
        Sum of squared distances of the rows to the means of their clusters.
    converged_ : bool
        Whether the anchor graph's solver converged. The local graph needs none: True.
    n_iter_ : int
        Sweeps of that solver over the rows; 1 for the local graph.
    multipliers_ : ndarray of shape (n_clusters, n_groups)
        Dual variables of the reconstruction graph. Set by it only, as the next two.
    mass_error_, duality_gap_ : float
        Largest error of a cell's soft mass, in samples, and the graph's duality gap.
    history_ : list of dict
        One record per iteration of the reconstruction graph's solver.
    n_passes_ : int
        Number of passes over all rows, if there are more than 2**20; `write_labels` and
        `iter_labels` take one more. Model files do not have it.
    n_clusters_found_ : int
        Number of clusters with at least one row.
    n_features_in_ : int
        Number of features.
    sensitive_names_in_ : ndarray of shape (n_columns,)
        Names of the sensitive columns, if all of them are distinct strings. `predict` matches the
        columns of a table by them, in any order.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from fairanchor import AnchorFairClustering
    >>> X, moon = make_moons(5000, noise=0.05, random_state=0)
    >>> group = np.random.default_rng(0).choice(["a", "b"], 5000)
    >>> model = AnchorFairClustering(2, random_state=0).fit(X, sensitive_features=group)
    >>> bool(model.worst_violation_ < 1)
    True
    """

    __metadata_request__predict_proba = {"sensitive_features": True}
    __metadata_request__transform = {"sensitive_features": True}

    _parameter_constraints = {
        "n_clusters": [Interval(Integral, 1, None, closed="left"), None],
        "clusterer": [StrOptions(set(CLUSTERERS)), callable, HasMethods("fit"), None],
        "anchors": [StrOptions(set(METHODS)), FDAS, "array-like"],
        "n_anchors": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "graph": [StrOptions(set(GRAPHS)), LocalGraph, ReconstructionGraph],
        "fairness": [StrOptions(set(TARGETS)), "array-like", FairnessTargets],
        "tolerance": [Interval(Real, 0, 1, closed="both")],
        "attributes": [StrOptions({"intersection", "separate"})],
        "assignment": [StrOptions(set(ASSIGNMENTS))],
        "min_cluster_size": [Interval(Real, 0, None, closed="left"), None],
        "missing_groups": [StrOptions({"error", "own_group"})],
        "unknown_groups": [StrOptions({"error", "blind"})],
        "n_jobs": [None, Integral],
        "random_state": ["random_state"],
    }

    @without(
        refine="fit FairKMeans(init=model.cluster_centers_) for Lloyd steps afterwards.",
        graph_rows="every row is solved; graph=LocalGraph() is fast.",
        alpha="graph=ReconstructionGraph(alpha=...).",
        solver="graph=ReconstructionGraph(solver=...).",
        max_iter="graph=ReconstructionGraph(max_iter=...).",
        tol="graph=ReconstructionGraph(tol=...).",
        quotas="anchors=FDAS(quotas=...).",
        anchor_weights="anchors=FDAS(weights=...).",
        verbose="it was removed.",
    )
    def __init__(
        self,
        n_clusters: int | None = 8,
        *,
        clusterer: Any = None,
        anchors: Any = "kmeans",
        n_anchors: Any = "auto",
        graph: Any = "local",
        fairness: Any = "population",
        tolerance: float = 0.0,
        attributes: str = "intersection",
        assignment: str = "balanced",
        min_cluster_size: float | None = None,
        missing_groups: str = "error",
        unknown_groups: str = "error",
        n_jobs: int | None = None,
        random_state: Seed | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.clusterer = clusterer
        self.anchors = anchors
        self.n_anchors = n_anchors
        self.graph = graph
        self.fairness = fairness
        self.tolerance = tolerance
        self.attributes = attributes
        self.assignment = assignment
        self.min_cluster_size = min_cluster_size
        self.missing_groups = missing_groups
        self.unknown_groups = unknown_groups
        self.n_jobs = n_jobs
        self.random_state = random_state

    @classmethod
    def as_in_paper(
        cls, n_clusters: int = 8, *, clusterer: Any = "spfc", alpha: float = 1.0, **parameters: Any
    ) -> Self:
        """The setting of the paper, for comparison.

        20 FDAS anchors per group with the paper's quotas and without weights; the literal
        targets; the reconstruction graph by ADMM with Frank-Wolfe steps; argmax. A target that
        cannot be met, which is the rule, ends in a ConvergenceWarning.

        Where the text of the paper is ambiguous or cannot be run, these choices replace it:
        decayed scores are divided by the largest that is left (``FDAS(decay="printed")`` is the
        printed rule, which selects rows repeatedly); scores count from the smallest value of each
        feature (``FDAS(origin="table")`` is the other reading); the first penalty follows the
        anchors; the solver stops by relative residuals; and a clusterer that returns fewer
        clusters than ``n_clusters`` raises an error. The page on the reproduction of the paper
        has the effect of each.

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
            "anchors": FDAS(quotas="paper", weights="uniform"),
            "graph": ReconstructionGraph(alpha=alpha, solver="admm"),
            "fairness": "paper",
            "assignment": "argmax",
        }
        return cls(n_clusters, clusterer=clusterer, **(setting | parameters))

    @fit_context(prefer_skip_nested_validation=False)
    @with_one_blas_thread
    def fit(
        self,
        X: Table,
        y: None = None,
        *,
        sensitive_features: Table | None = None,
        sample_weight: Weights | None = None,
    ) -> Self:
        """Cluster the rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), dataset or Dask collection
            Rows to cluster: in memory, in the Parquet or Arrow files of a pyarrow dataset, or in a
            Dask DataFrame or array, whose client must be open.
        y : Ignored
            Present for API consistency.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            Group of each row. Without it all rows are one group, which a warning reports. For
            datasets and Dask DataFrames the name of a column or a list of names; all other
            columns are features.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row; targets and counts are then in weight.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        graph, needs_memory = self._check_request()
        training = self._open_rows(X, sensitive_features, sample_weight, needs_memory=needs_memory)
        warn_about_small_groups(
            training.groups, self.n_clusters or 1, attributes=training.attributes
        )
        # One seed for all groups, so that neither their names nor their order matter.
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)

        # 1. Anchors: every group gets its quota, every anchor the number of rows it represents.
        few = isinstance(graph, ReconstructionGraph)  # whose cost grows fast with the anchors
        n_clusters = self.n_clusters or 1
        plan = plan_anchors(self.anchors, self.n_anchors, training.groups, n_clusters, few=few)
        drawn = training.draw(n_clusters, plan.rows_to_draw)
        counted = training.distinct
        if training.in_chunks:
            counted = training.samples(n_clusters, drawn)[-1]
        anchors = select_anchors(plan, training.rows, counted, drawn, seed)

        # 2. Anchor clustering: any clusterer, and it only ever sees the anchors.
        anchor_labels, fitted = cluster_anchors(self.clusterer, anchors, self.n_clusters, seed)

        # 3. and 4. Anchor graph and labels: rows get the cheapest labels that are fair.
        connect = self._connect_locally
        if isinstance(graph, ReconstructionGraph):
            connect = self._reconstruct
        constraint, assigned, labels = connect(graph, training, anchors, anchor_labels, drawn)

        self.clusterer_ = fitted
        self.anchors_ = anchors.points / training.length
        self.anchor_masses_ = anchors.masses * training.unit
        self.anchor_labels_ = anchor_labels
        self.__dict__.pop("anchor_indices_", None)
        if anchors.indices is not None:
            self.anchor_indices_ = anchors.indices
        self._n_features_out = len(anchors.points)
        self._store_assignment(
            training, assigned, labels, constraint, squared=isinstance(graph, LocalGraph)
        )
        self._store_clusters(training, assigned, labels)
        return self

    def _check_request(self) -> tuple[LocalGraph | ReconstructionGraph, str | None]:
        """Check parameters against each other.

        Returns the graph as an object, and what was asked for that needs all rows in memory.
        """
        check_request(self.fairness, self.tolerance, self.min_cluster_size, names=set(TARGETS))
        graph = GRAPHS[self.graph]() if isinstance(self.graph, str) else self.graph
        graph._check()
        exact = isinstance(graph, LocalGraph) or graph.solver == "newton"
        if isinstance(self.fairness, str) and self.fairness == "paper" and exact:
            raise ValueError(
                "fairness='paper' is infeasible unless quotas are proportional, and needs "
                "graph=ReconstructionGraph(solver='admm'). fairness='anchors' is the feasible form."
            )
        bounds = self._bounds_in_words()
        if bounds is not None and self.assignment != "balanced":
            raise ValueError(
                f"{bounds} needs assignment='balanced', got {self.assignment!r}: bounds hold for "
                "labels that are assigned exactly."
            )
        if bounds is not None and not exact:
            raise ValueError(
                f"{bounds} needs solver='newton' or graph='local', got solver={graph.solver!r}: "
                "ADMM ends near its targets only."
            )
        needs_memory = None
        if bounds is not None and isinstance(graph, ReconstructionGraph):
            needs_memory = bounds
        elif self.attributes == "separate":
            needs_memory = "attributes='separate'"
        elif self.assignment != "balanced":
            needs_memory = f"assignment={self.assignment!r}"
        elif not exact:
            needs_memory = f"solver={graph.solver!r}"
        return graph, needs_memory

    def _constraint(
        self, training: Any, anchors: Any, anchor_labels: np.ndarray, n_clusters: int
    ) -> Constraint:
        """What labels must satisfy; a named fairness may depend on the anchors."""
        targets = None
        if isinstance(self.fairness, str) and self.fairness != "population":
            summary = AnchorSummary.of(anchors, anchor_labels, n_clusters, training.rows)
            targets = fairness_targets(self.fairness, summary)
        return constraint_of(
            self.fairness, self.tolerance, training.attributes, training.groups, training.rows,
            n_clusters, min_size=self.min_cluster_size, targets=targets, unit=training.unit,
        )  # fmt: skip

    def _connect_locally(
        self, graph: Any, training: Any, anchors: Any, anchor_labels: np.ndarray, drawn: Any
    ) -> tuple:
        """Costs by distance; the clusters are as large as the rows without a constraint make them.

        Free sizes, as in fair k-means, would let clusters vanish that groups do not share.
        """
        n_clusters = int(anchor_labels.max()) + 1
        rows = training.distinct
        costs = LocalCosts(anchors.points, anchor_labels, n_clusters, graph.n_neighbors)
        counted = training.samples(n_clusters, drawn)[-1] if training.in_chunks else rows
        known, mass, total = unconstrained(counted, costs)
        known = (rows, costs) if training.in_chunks else known
        constraint = self._constraint(training, anchors, anchor_labels, n_clusters)
        if constraint.is_population:
            sizes = whole_sizes(mass.sum(axis=1), whole=not training.rows.is_weighted)
            constraint = Constraint(np.outer(sizes, rows.group_sizes) / rows.total)
        assigned = self._labels(training, rows, known, constraint, drawn)
        self._costs = costs.with_typical_cost(total / rows.total)
        self.converged_, self.n_iter_ = True, 1
        for name in ("multipliers_", "mass_error_", "duality_gap_", "history_"):
            self.__dict__.pop(name, None)
        return constraint, *assigned

    def _reconstruct(
        self, graph: Any, training: Any, anchors: Any, anchor_labels: np.ndarray, drawn: Any
    ) -> tuple:
        """Soft labels as convex combinations of the anchors, whose sums meet the targets."""
        n_clusters = int(anchor_labels.max()) + 1
        problem = graph.problem(anchors.points, anchor_labels, n_clusters, training.length)
        # ADMM's residuals count rows.
        rows = training.distinct if graph.solver == "newton" else training.rows
        constraint = self._constraint(training, anchors, anchor_labels, n_clusters)
        if constraint.is_population:
            summary = AnchorSummary.of(anchors, anchor_labels, n_clusters, training.rows)
            constraint = Constraint(fairness_targets("population", summary))
        targets: Any = constraint.targets
        if constraint.rule is not None:
            targets = nearest_targets(constraint.rule, problem, rows)
        exact = graph.solver == "newton"
        samples = training.samples(n_clusters, drawn) if exact else []
        result = graph.make_solver().solve(problem, rows, targets, samples)
        warn_not_converged(result)
        multipliers = result.multipliers
        # ADMM excludes no anchor: its zero targets are met as nearly as all others.
        allowed = np.ones(targets.shape, dtype=bool)
        if exact:
            allowed = (targets > 0) | (targets.sum(axis=0) == 0)
            multipliers = sufficient_multipliers(problem, rows, targets, multipliers)
        known: Any = (rows, SoftLabels(problem, multipliers, allowed))
        if result.soft_labels is not None:
            known = rows.with_features(-result.soft_labels), KnownCosts(n_clusters)
            result.soft_labels = None  # which grow with the rows
        elif not training.in_chunks:
            known = with_known_costs(*known)
        assigned = self._labels(training, rows, known, constraint, drawn)
        self._costs = SoftLabels(
            problem, training.groups.to_public(multipliers), training.groups.to_public(allowed)
        )
        length, unit = training.length, training.unit
        self.multipliers_ = self._costs.multipliers / length / length
        self.mass_error_ = result.mass_error * unit
        self.duality_gap_ = result.duality_gap * unit / length / length
        self.history_ = result.history_in_units_of(length, unit)
        self.converged_, self.n_iter_ = result.converged, result.n_iter
        return constraint, *assigned

    def _labels(self, training: Any, rows: Any, known: Any, constraint: Any, drawn: Any) -> tuple:
        """The cheapest labels under the constraint, or each row's own cheapest cluster.

        ``known`` has the same rows, and their costs.
        """
        known_rows, costs = known
        if self.assignment == "argmax":
            targets = constraint.targets
            closed = np.where(constraint.allowed_cells(*targets.shape), 0.0, np.inf)
            labels = cheapest_clusters(known_rows, costs, closed)
            return Unassigned(targets), rows.spread(labels, {})
        if training.in_chunks:
            sample = training.samples(costs.n_clusters, drawn)[-1]
            return assign(known_rows, costs, constraint, sample=sample), None
        assigned = assign(known_rows, costs, constraint)
        return assigned, rows.spread(*assigned.transported.memory_labels())

    def _store_clusters(self, training: Any, assigned: Any, labels: np.ndarray) -> None:
        """Means of the clusters and the squared distances of the rows; warn of small clusters."""
        n_clusters, rows, length = len(assigned.targets), training.rows, training.length
        # A cluster without rows has the mean of its anchors.
        anchors, ones = self.anchors_ * length, np.ones(len(self.anchors_))
        sums, numbers = label_sums(anchors, ones, self.anchor_labels_, n_clusters)
        middles = sums / numbers[:, None]
        if training.in_chunks:
            sums, sizes, squares = sums_in_chunks(
                rows, list(assigned.labellers()), n_clusters, middles
            )
            centers = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], middles)
            # Squares around points that are near, less the little that the means take of them.
            cost = squares[0] - float(sizes @ ((centers - middles) ** 2).sum(axis=1))
            self.n_passes_ = rows.n_passes
        else:
            centers = means_of(rows, labels, middles)
            cost = cost_of(rows, labels, centers)
        self.cluster_centers_ = centers / length
        self.inertia_ = max(float(cost), 0.0) * training.unit / length / length
        sizes = self.counts_.sum(axis=1)
        self.n_clusters_found_ = int(np.count_nonzero(sizes))
        small = sizes < sizes.sum() * min(SMALL_SHARE, SMALL_PART / len(sizes))
        if small.any():
            listed = ", ".join(f"{l} ({sizes[l]:g})" for l in np.flatnonzero(small)[:5])
            warnings.warn(
                f"{int(small.sum())} of {len(sizes)} clusters have very few samples: {listed}. "
                "min_cluster_size sets a minimum; fewer clusters or another clusterer may fit the "
                "data better.",
                FairnessWarning,
                stacklevel=users_stacklevel(),
            )

    def predict_proba(self, X: Table, *, sensitive_features: Table | None = None) -> np.ndarray:
        """Soft labels of new rows.

        In the local graph, the projection of ``-(costs - prices) / 2 alpha`` onto the simplex,
        where alpha is the spread of the row's distances to its nearest anchors: the largest
        entry is that of `predict`, ties excepted. In the reconstruction graph, the weights on
        each cluster's anchors, whose largest entry may differ from `predict`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            New rows.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            Their groups.

        Returns
        -------
        soft_labels : ndarray of shape (n_samples, n_clusters)
            Rows on the simplex.
        """
        rows, prices = self._new_rows(X, sensitive_features)
        return self._costs_for(prices).soft_labels(rows, prices)

    def transform(self, X: Table, *, sensitive_features: Table | None = None) -> Any:
        """Weights of new rows on the anchors.

        Sums of the weights over a cluster's anchors are soft labels of the graph and may
        disagree with `predict`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            New rows.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            Their groups.

        Returns
        -------
        Z : csr_array of shape (n_samples, n_anchors)
            Rows on the simplex; a data frame of dense columns after ``set_output("pandas")``.
        """
        rows, prices = self._new_rows(X, sensitive_features)
        Z = self._costs_for(prices).anchor_weights(rows, prices)
        return Z.toarray() if wants_frame(self) else Z

    def fit_transform(
        self,
        X: Table,
        y: None = None,
        *,
        sensitive_features: Table | None = None,
        sample_weight: Weights | None = None,
    ) -> Any:
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

    @with_one_blas_thread  # as in fit: the last bits of a product may depend on their number
    def _restore_costs(self, parts: Any) -> None:
        """Set the costs that a model file has stored in parts."""
        labels, n_clusters, length = self.anchor_labels_, len(self.counts_), self._length
        self.anchors_, self._n_features_out = parts["anchors"] / length, len(parts["anchors"])
        if "alpha" not in parts:
            self._costs = LocalCosts(anchor_labels=labels, n_clusters=n_clusters, **parts)
            return
        problem = AnchorGraphProblem(
            parts["anchors"], labels, n_clusters, parts["alpha"], announce=False
        )
        self._costs = SoftLabels(problem, parts["multipliers"], parts["allowed_cells"])
        self.multipliers_ = parts["multipliers"] / length / length

    def _costs_for(self, prices: np.ndarray) -> Any:
        """The costs, with multipliers for codes that fit has not seen."""
        costs = self._costs
        extra = prices.shape[1] - len(self.groups_)
        if extra == 0 or isinstance(costs, LocalCosts):
            return costs
        # Those of excluded cells are as large as need be, and would exclude all.
        average = self._average(costs.multipliers, costs.allowed_cells, 0.0)[:, None]
        return SoftLabels(
            costs.problem,
            np.column_stack([costs.multipliers, *[average] * extra]),
            np.column_stack(
                [costs.allowed_cells, *[costs.allowed_cells.any(axis=1)[:, None]] * extra]
            ),
        )
