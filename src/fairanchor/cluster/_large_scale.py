"""What `FairKMeans` and `AnchorFairClustering` share: rows of any size, labels by dual variables.

Both end in one assignment. A row's label follows from its costs in the clusters and from one
price per cluster and group, so the fitted model labels new rows and fits in a small file.
"""

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from fairanchor._utils._cached import cached_property
from fairanchor._utils._scaling import power_of_two_scale
from fairanchor._utils._shared_state import users_stacklevel, with_one_blas_thread
from fairanchor._utils._sklearn_compat import check_weights, set_feature_names
from fairanchor._utils._typing import Path, Table, Weights
from fairanchor.assignment._engine import assign, with_known_costs
from fairanchor.assignment._sweep import cheapest_clusters
from fairanchor.cluster._base import (
    FairClusterer,
    check_n_clusters,
    check_rows,
    known_codes,
)
from fairanchor.cluster._fair_lloyd import cost_of
from fairanchor.constraints._bounds import ROUNDING_ERROR, ShareBounds, proportional_rule
from fairanchor.constraints._constraint import asks_for_sizes, constraint_of, is_bounds
from fairanchor.exceptions import FairnessWarning
from fairanchor.groups._columns import check_pairing, in_fitted_order, store_sensitive_names
from fairanchor.groups._groups import Attributes, Groups, check_groups, warn_one_group
from fairanchor.metrics import balance_of_table
from fairanchor.persistence import save_model
from fairanchor.rows import (
    ChunkedRows,
    MemoryChunks,
    MemoryRows,
    Sampler,
)
from fairanchor.rows._checkpoint import identity_of_run
from fairanchor.rows._chunks import CHUNK_ROWS
from fairanchor.rows._label_files import ChunkedLabels
from fairanchor.rows._open import is_batched, kind_of, sensitive_names, source_of, tables_of
from fairanchor.rows._tables import with_unit_rows

# Least number of rows of a sample.
ROWS_PER_CLUSTER = 50


@dataclass(frozen=True)
class TrainingRows:
    """Checked rows of a fit, in memory or in chunks.

    Attributes
    ----------
    rows : MemoryRows or ChunkedRows
        Multiplied by ``length``, a power of two that keeps squares in the range of doubles.
    groups : Groups
    attributes : Attributes or None
        The sensitive columns one by one, if each is an attribute by itself.
    length : float
    unit : float
        Weight of one row, where all weights are equal.
    columns : list of str, or None
        Names of the sensitive columns.
    sampler : Sampler
        Draws samples of the rows.
    """

    rows: Any
    groups: Groups
    attributes: Attributes | None = None
    length: float = 1.0
    unit: float = 1.0
    columns: list | None = None
    sampler: Sampler = Sampler()

    @property
    def in_chunks(self) -> bool:
        """Whether rows are swept chunk by chunk."""
        return isinstance(self.rows, ChunkedRows)

    @cached_property
    def distinct(self) -> Any:
        """The same rows with equal ones merged."""
        return self.rows.merged()

    def draw(self, n_clusters: int, least_per_group: Any = 0, *, second: bool = False) -> Any:
        """Of rows in chunks, those from which samples and anchors are taken; else None.

        A ``second`` sample has others, as far as there are any.
        """
        if not self.in_chunks:
            return None
        n_rows = self.sampler.rows_to_draw(
            self.rows.n_groups, least_rows=ROWS_PER_CLUSTER * n_clusters
        )
        wanted = np.broadcast_to(np.maximum(n_rows, least_per_group), self.rows.n_groups)
        return self.rows.draw(wanted, second=second)

    def samples(self, n_clusters: int, drawn: Any = None) -> Any:
        """Weighted samples, from small to large; none of a small table."""
        least_rows = ROWS_PER_CLUSTER * n_clusters
        if drawn is not None:
            return self.sampler.samples_of_drawn(self.rows, drawn, least_rows=least_rows)
        return self.sampler.samples(self.rows, self.distinct, least_rows=least_rows)


class LargeScaleClusterer(FairClusterer):
    """Base of the estimators for rows of any size.

    A subclass sets in ``fit``: ``_costs``, which writes the costs of rows in the clusters,
    ``cluster_centers_``, and calls `_store_assignment`.
    """

    _costs: Any
    #: Whether rows of float32 stay as they are; distances are float64 in any case.
    _keeps_float32 = False
    #: Whether sparse rows are taken as they are.
    _takes_sparse = False
    #: Rows of a chunk, and sizes of samples: fixed, since labels may depend on them.
    _chunk_rows = CHUNK_ROWS
    _sampler = Sampler()

    __metadata_request__predict = {"sensitive_features": True}
    __metadata_request__score = {"sensitive_features": True, "sample_weight": True}

    def predict(self, X: Table, *, sensitive_features: Table | None = None) -> np.ndarray:
        """Label new rows by the model's costs and the prices of their groups.

        On the training rows this gives ``labels_``, ties excepted (and, with unequal weights,
        the few rows that had to be rounded). New rows are labelled one by one: a fair
        composition of a new table is likely, not guaranteed.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Arrow stream, dataset or Dask DataFrame
            New rows. All but arrays (see `fit`) are read batch by batch.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            Their groups, or the names of their columns for rows that are read in batches. Columns
            with names are matched with those of `fit` by name, others by position. None, where
            groups are not known, needs ``unknown_groups="blind"``.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Cluster of each row.
        """
        if is_batched(X):
            parts = tables_of(X, sensitive_features)
            return np.concatenate([self.predict(x, sensitive_features=g) for x, g in parts])
        rows, prices = self._new_rows(X, sensitive_features)
        return self._labels_of(rows, prices)

    @with_one_blas_thread
    def predict_batch(self, X: Table, *, sensitive_features: Table | None = None) -> np.ndarray:
        """Label a whole batch so that every cluster mirrors the batch's own population.

        The assignment step of `fit` on new rows: centres or anchors stay, and the constraint
        (``tolerance``, ``attributes``, bounds of `FairnessTargets`) holds for the batch, in whole
        rows. A row's label depends on the other rows of the batch; `predict` labels row by row.
        Clusters may be empty, ``min_cluster_size`` does not apply, and the costs of all rows in
        all clusters are in memory.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            New rows.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            Their groups, as in `predict`.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Cluster of each row.
        """
        rows, prices = self._new_rows(X, sensitive_features)
        if not is_bounds(self.fairness) and np.any(self.fairness != "population"):
            raise ValueError(
                f"fairness={self.fairness!r} counts the rows of the fit, not of a batch: "
                "predict_batch needs fairness='population' or FairnessTargets."
            )
        columns = in_fitted_order(self, sensitive_features)
        groups = check_groups(columns, rows.n_rows, missing=self.missing_groups)
        attributes = Attributes.of(columns, groups) if self.attributes == "separate" else None
        rows, costs = with_known_costs(rows, self._costs_for(prices))
        rows = MemoryRows(rows.X, groups.codes, groups.n_groups, n_jobs=self.n_jobs)
        constraint = constraint_of(
            self.fairness, self.tolerance, attributes, groups, rows, costs.n_clusters, empty=True
        )
        return assign(rows, costs, constraint).labels(rows)

    def score(
        self,
        X: Table,
        y: None = None,
        *,
        sensitive_features: Table | None = None,
        sample_weight: Weights | None = None,
    ) -> float:
        """Minus the k-means cost of the rows under `predict`.

        A search over tolerances by this score prefers the loosest one. With
        `fairanchor.model_selection.FairCostScorer` it respects the constraint.

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
        rows, prices = self._new_rows(X, sensitive_features)
        weights = check_weights(sample_weight, rows.X)
        labels = self._labels_of(rows, prices)
        rows = rows if weights is None else rows.weighted(weights)
        cost = cost_of(rows, labels, self.cluster_centers_ * self._length)
        return -cost / self._length / self._length

    def save(self, path: Path, *, force: bool = False) -> None:
        """Write the fitted model to a file, whole or not at all; see `load_model`.

        Parameters
        ----------
        path : str or path-like
            The file, usually ``.npz``.
        force : bool, default=False
            Whether an existing file may be replaced.
        """
        save_model(self, path, force=force)

    def write_labels(self, path: Path, *, force: bool = False) -> None:
        """Write the labels of the rows that `fit` read from a dataset or a Dask collection.

        The result is a directory of Parquet files with the names and the row order of the
        input's, and the columns ``row`` (number of the row in its file) and ``cluster``. Labels
        are computed in one more pass, chunk by chunk, and never gathered.

        Parameters
        ----------
        path : str or path-like
            The directory, which appears when it is complete.
        force : bool, default=False
            Whether an existing directory of labels may be replaced.
        """
        self._chunked_labels().write(path, force=force)

    def iter_labels(self) -> Iterator[np.ndarray]:
        """Labels of the rows that `fit` read from a dataset or a Dask collection.

        Yields
        ------
        labels : ndarray of shape (n_chunk_rows,)
            Labels of one chunk after the other, in row order.
        """
        yield from self._chunked_labels()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._takes_sparse
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_costs")

    def __getstate__(self) -> dict:
        # Rows in files or on a cluster, its client above all, cannot be stored.
        return super().__getstate__() | {"_chunked": None}

    def _chunked_labels(self) -> Any:
        check_is_fitted(self)
        chunked = self.__dict__.get("_chunked")
        if chunked is None:
            if not hasattr(self, "labels_"):
                raise ValueError(
                    "This model was loaded or copied and does not know the rows that it was fitted "
                    "to. Label them with predict, or fit again."
                )
            raise ValueError(
                "The rows were in memory: their labels are in labels_. Labels are written chunk by "
                "chunk for datasets and Dask collections of more than one chunk."
            )
        return chunked

    def _fitted_labels(self) -> np.ndarray:
        return self.labels_ if self._chunked is None else np.concatenate(list(self._chunked))

    # Rows.

    def _bounds_in_words(self) -> str | None:
        """The parameter that asks for bounds, or None."""
        if is_bounds(self.fairness):
            return f"fairness={self.fairness!r}"
        if self.tolerance > 0.0:
            return f"tolerance={self.tolerance}"
        if self.attributes == "separate":
            return "attributes='separate'"
        if self.min_cluster_size is not None:
            return f"min_cluster_size={self.min_cluster_size}"
        return None

    def _open_rows(
        self,
        X: Table,
        sensitive_features: Table,
        sample_weight: Weights,
        *,
        needs_memory: str | None = None,
    ) -> TrainingRows:
        """What the user gave; ``needs_memory`` is what was asked for that needs rows in memory."""
        n_clusters = self.n_clusters or 1
        if kind_of(X) == "stream":
            [(X, sensitive_features)] = tables_of(X, sensitive_features, whole=True)
        columns = sensitive_names(X, sensitive_features)
        source = None
        if kind_of(X) is not None:
            source = source_of(X, sensitive_features)
            if source.n_rows > self._chunk_rows:
                return self._open_chunks(
                    source, sensitive_features, sample_weight, columns, needs_memory
                )
            self._checkpoint_of(source)
            raw = source.read(self.missing_groups)
            X, sensitive_features = raw.X, raw.sensitive_features
        else:
            check_pairing(X, sensitive_features)
        X = check_rows(self, X, keep_float32=self._keeps_float32, sparse=self._takes_sparse)
        if source is not None:
            set_feature_names(self, source.feature_names, X.shape[1])
        check_n_clusters(n_clusters, X.shape[0])
        groups = check_groups(
            sensitive_features, X.shape[0], missing=self.missing_groups,
            warns=not asks_for_sizes(self.fairness, self.min_cluster_size),
        )  # fmt: skip
        attributes = None
        if self.attributes == "separate":
            attributes = Attributes.of(sensitive_features, groups)
        weights: Any = check_weights(sample_weight, X)
        unit = 1.0
        X, length = self._scaled(X, power_of_two_scale(X))
        if weights is not None and np.ptp(weights) == 0.0:
            # Equal weights are counts in another unit, and counts can be met exactly.
            unit, weights = float(weights[0]), None
        rows: Any = MemoryRows(
            X, groups.codes, groups.n_groups, weights=weights, n_jobs=self.n_jobs
        )
        if needs_memory is None and weights is None and rows.n_rows > self._chunk_rows:
            rows = MemoryChunks(rows, self._chunk_rows)
        return TrainingRows(rows, groups, attributes, length, unit, columns, self._sampler)

    def _open_chunks(
        self,
        source: Any,
        sensitive_features: Table,
        sample_weight: Weights,
        columns: Any,
        needs_memory: str | None,
    ) -> TrainingRows:
        """Rows of a dataset or of a Dask collection, a chunk at a time."""
        if sample_weight is not None:
            needs_memory = "sample_weight"
        if needs_memory is not None:
            raise ValueError(
                f"{needs_memory} needs all rows in memory, and X has {source.n_rows:,} of them in "
                "files or on a cluster."
            )
        check_n_clusters(self.n_clusters or 1, source.n_rows)
        asks_for_nothing = not asks_for_sizes(self.fairness, self.min_cluster_size)
        if sensitive_features is None and asks_for_nothing:
            warn_one_group()
        checkpoint = self._checkpoint_of(source)  # raises for another run's before rows are read
        if source.client is not None:
            from fairanchor.rows._dask import warm_up  # loads dask

            warm_up(source.client, partial(_fit_few_rows, type(self)))
        rows, groups, scale = source.open(
            self._chunk_rows, self.missing_groups, self.n_jobs, self.n_clusters or 1,
            partial(
                self._sampler.rows_to_draw, least_rows=ROWS_PER_CLUSTER * (self.n_clusters or 1)
            ),
            unit=self._has_unit_rows,
        )  # fmt: skip
        rows.checkpoint, rows.progress = checkpoint, source.progress
        set_feature_names(self, source.feature_names, rows.n_features)
        length = 1.0 if self._has_unit_rows else scale
        return TrainingRows(rows, groups, None, length, columns=columns, sampler=self._sampler)

    @property
    def _has_unit_rows(self) -> bool:
        """Whether rows are divided by their norms."""
        return False

    def _scaled(self, X: Any, length: float) -> tuple[Any, float]:
        """Checked rows as they are used, and what lengths are multiplied by."""
        if self._has_unit_rows:
            return with_unit_rows(X), 1.0
        return X if length == 1.0 else X * length, length

    def _checkpoint_of(self, source: Any) -> Any:
        """Where the run's checkpoint is kept, if one is wanted."""
        if source.checkpoint is None:
            return None
        run = identity_of_run(self.get_params(deep=False), source.fingerprint(), self._chunk_rows)
        return source.checkpoint(run)

    def _rows_of(self, X: Table) -> MemoryRows:
        """New rows in the fitted scale, as one group."""
        X = check_rows(
            self, X, reset=False, keep_float32=self._keeps_float32, sparse=self._takes_sparse
        )
        X, _ = self._scaled(X, self._length)
        return MemoryRows(X, np.zeros(X.shape[0], dtype=np.int64), 1, n_jobs=self.n_jobs)

    def _new_rows(self, X: Table, sensitive_features: Table) -> tuple[MemoryRows, np.ndarray]:
        """New rows in the fitted scale, and prices with a column for each of their codes."""
        check_is_fitted(self)
        if kind_of(X) in ("files", "dask"):
            raise TypeError(
                f"X is a {type(X).__name__}, expected rows in memory. Pass new rows batch by "
                "batch; write_labels writes the labels of the rows that were fitted."
            )
        check_pairing(X, sensitive_features)
        rows = self._rows_of(X)
        codes, extra = known_codes(
            self,
            sensitive_features,
            rows.n_rows,
            unknown_groups=self.unknown_groups,
            missing_groups=self.missing_groups,
        )
        prices = np.where(self._allowed, self.assignment_prices_, -np.inf)
        columns = [prices, *(own[:, None] for own in extra.values())]
        if (codes < 0).any():
            codes = np.where(codes < 0, prices.shape[1] + len(extra), codes)
            average = self._average(self.assignment_prices_, self._allowed, -np.inf)
            columns.append(average[:, None])
        prices = np.column_stack(columns) * self._price_unit
        return MemoryRows(rows.X, codes, prices.shape[1], n_jobs=self.n_jobs), prices

    def _average(self, table: np.ndarray, allowed: np.ndarray, default: float) -> np.ndarray:
        """Mean of each row over the groups that may use the cell, by their shares."""
        shares = allowed * self._group_shares
        totals = shares.sum(axis=1)
        sums = (shares * table).sum(axis=1)
        return np.divide(sums, totals, out=np.full(len(totals), default), where=totals > 0)

    def _labels_of(self, rows: Any, prices: np.ndarray) -> np.ndarray:
        return cheapest_clusters(rows, self._costs_for(prices), -prices)

    def _costs_for(self, prices: np.ndarray) -> Any:
        """Costs of rows with one code for each column of prices."""
        return self._costs

    # Attributes after a fit.

    def _store_rows(
        self,
        training: TrainingRows,
        labels: np.ndarray | None,
        totals: np.ndarray,
        labellers: Iterable,
    ) -> None:
        """Labels and counts, in the user's units and with the groups in public order.

        Of rows in chunks ``labels`` are None: ``totals`` are their counts, and ``labellers`` give
        the labels of each chunk.
        """
        rows, groups, unit = training.rows, training.groups, training.unit
        self._chunked, self._length = None, training.length
        # Left over from an earlier fit, or from the file that the model was loaded from.
        for name in ("labels_", "preprocessing_", "n_passes_", "expected_excess_"):
            self.__dict__.pop(name, None)
        if labels is not None:
            weights = rows.weights * unit if rows.is_weighted or unit != 1.0 else None
            self._store_labels(labels, groups, weights, len(totals))
        else:
            counts = groups.to_public(totals)
            self.groups_ = groups.public_names
            self.counts_ = counts.astype(np.int64) if unit == 1.0 else counts * unit
            self.balance_ = balance_of_table(totals)
            chunked = ChunkedLabels(rows, list(labellers))
            if isinstance(rows, MemoryChunks):
                self.labels_ = np.concatenate(list(chunked))
            else:
                self._chunked = chunked
        self._group_shares = groups.to_public(rows.group_sizes) / rows.total
        store_sensitive_names(self, training.columns)

    def _store_assignment(
        self,
        training: Any,
        assigned: Any,
        labels: np.ndarray | None,
        constraint: Any,
        *,
        squared: bool = True,
    ) -> None:
        """Attributes of the labels, which are None if rows are in chunks.

        ``squared`` states whether costs, hence prices, are in squared units of the features.
        """
        rows, groups, unit = training.rows, training.groups, training.unit
        if labels is None:
            self._store_rows(training, None, assigned.totals, assigned.labellers())
        else:
            self._store_rows(training, labels, assigned.targets, ())
        if isinstance(rows, ChunkedRows):
            self.n_passes_ = rows.n_passes
        self._price_unit = training.length**2 if squared else 1.0
        n_clusters = len(assigned.prices)
        self._allowed = groups.to_public(constraint.allowed_cells(n_clusters, groups.n_groups))
        self.targets_ = groups.to_public(assigned.targets) * unit
        self.assignment_prices_ = -groups.to_public(assigned.prices) / self._price_unit
        self.assignment_gap_ = assigned.gap * unit / self._price_unit
        self._store_violations(training, assigned, constraint)

    def _store_violations(self, training: Any, assigned: Any, constraint: Any) -> None:
        """By how much the constraint is missed, in all and by attribute."""
        rows, groups, unit = training.rows, training.groups, training.unit
        attributes, rule = training.attributes, constraint.rule
        self._attributes, self._attribute_prices = attributes, []
        self._public_bounds = None
        if rule is not None:
            # Codes of separate attributes are in sorted order already.
            ordered: Any = groups.to_public if rule.joint is None else np.asarray
            self._public_bounds = [
                ShareBounds(
                    ordered(one.lower), ordered(one.upper), one.least * unit, one.greatest * unit,
                    one.margin * unit,
                )
                for one in rule.bounds
            ]  # fmt: skip
        elif constraint.is_population:
            rule = proportional_rule(rows.group_sizes, len(assigned.prices), 0.0)
        tables = [self.counts_]
        violations = [float(np.abs(self.counts_ - self.targets_).max()) / unit]
        if rule is not None:
            counts = groups.from_public(self.counts_)
            counts = counts if unit == 1.0 else counts / unit
            violations = rule.violations(counts)
            if rule.joint is not None:
                tables = [t if unit == 1.0 else t * unit for t in rule.margins(counts)]
                prices = rule.attribute_prices(assigned.multipliers)
                # A combination of groups that was not seen must not go where one of them may not;
                # a group without weight has no positive bound, and may be anywhere.
                for bounds, table in zip(rule.bounds, prices, strict=True):
                    may = bounds.upper > 0.0
                    own = np.where(may | ~may.any(axis=0), -table, -np.inf) / self._price_unit
                    self._attribute_prices.append(own)
        self.worst_violation_ = max(violations) * unit
        for name in ("attribute_groups_", "attribute_counts_", "attribute_violations_"):
            self.__dict__.pop(name, None)
        if attributes is not None:
            columns, missed = attributes.columns, [violation * unit for violation in violations]
            self.attribute_groups_ = dict(zip(columns, attributes.names, strict=True))
            self.attribute_counts_ = dict(zip(columns, tables, strict=True))
            self.attribute_violations_ = dict(zip(columns, missed, strict=True))
        if constraint.rule is not None and not rows.is_weighted:
            # Wrong records must not break a bound: no part of a row may be missing.
            strictly = any(own.margin for own in constraint.rule.bounds)
            if max(violations) >= (ROUNDING_ERROR if strictly else 1.0):
                _warn_of_missed_bounds(violations, attributes)


def _warn_of_missed_bounds(violations: list[float], attributes: Attributes | None) -> None:
    by_attribute = ""
    if attributes is not None:
        pairs = zip(attributes.columns, violations, strict=True)
        by_attribute = f" ({', '.join(f'{name!r}: {v:.3g}' for name, v in pairs)})"
    warnings.warn(
        f"Not all bounds could be met in whole rows: the worst cell misses its bound by "
        f"{max(violations):.3g} rows{by_attribute}, which is the least that was found. "
        "Several attributes, or bounds that differ between clusters, can leave rows over.",
        FairnessWarning,
        stacklevel=users_stacklevel(),
    )


def _fit_few_rows(estimator: Any) -> None:
    """Compile the kernels of the passes over chunks."""
    X, groups = np.random.default_rng(0).normal(size=(200, 2)), np.arange(200) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for dtype in (np.float32, np.float64):
            model = estimator(2, random_state=0)
            model._chunk_rows = 100
            model.fit(X.astype(dtype), sensitive_features=groups)
