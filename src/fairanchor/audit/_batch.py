"""New batches: does a saved model still describe them?"""

import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.metrics import pairwise_distances_argmin_min
from sklearn.utils.validation import check_is_fitted

from fairanchor._utils._records import RecordTable
from fairanchor._utils._typing import Table
from fairanchor.audit._group_costs import measured_rows
from fairanchor.audit._selection import goodness_of_fit
from fairanchor.cluster._base import check_rows
from fairanchor.groups._columns import in_fitted_order
from fairanchor.groups._groups import codes_of_known_groups, count_cells

# Rows this many times as far from every centre as the rows of the fit are from theirs are far.
FAR = 3.0


@dataclass(frozen=True)
class BatchAudit(RecordTable):
    """A batch of new rows against the model that labels them.

    Attributes
    ----------
    records : list of dict
        One for all rows and one per cluster: ``cluster``, ``rows``, ``p_value`` (probability of a
        composition at least as far from the model's if the batch were a sample of the model's
        cluster: chi-square test, simulated where an expected count is below 5; multiplied by
        the number of clusters and one, at most 1), and the group farthest from the model:
        ``group``, its ``share`` of the batch's cluster and its ``model_share``.
    groups : list
        Groups of the model.
    counts : ndarray of shape (n_clusters, n_groups)
        Rows of the batch, as `predict` labels them one by one.
    relative_balance : float
        Worst ratio of a group's share in a cluster of the batch to its share in that cluster of
        the model, or the inverse; 0 if no row is of a group that the model knows.
    n_rows : int
        Rows of the batch.
    far_rows : ndarray of int
        Rows farther from every centre than three times the root-mean-square distance of the
        rows of the fit from theirs.
    unseen_groups : dict
        Groups that the model does not know, missing values (None) among them, and their number
        of rows. They are in no cluster of this table.
    """

    groups: list[Any]
    counts: np.ndarray = field(repr=False)
    relative_balance: float
    n_rows: int
    far_rows: np.ndarray = field(repr=False)
    unseen_groups: dict[Any, int]

    @property
    def p_value(self) -> float:
        """The smallest p-value."""
        return min(record["p_value"] for record in self.records)

    @property
    def share_far(self) -> float:
        """Share of the rows that are far from every centre."""
        return len(self.far_rows) / self.n_rows

    @property
    def share_unseen(self) -> float:
        """Share of the rows whose group the model does not know."""
        return sum(self.unseen_groups.values()) / self.n_rows


def audit_batch(model: Any, X: Table, *, sensitive_features: Table) -> BatchAudit:
    """Compare a batch of new rows with the model: composition, distances, unknown groups.

    Parameters
    ----------
    model : FairKMeans or AnchorFairClustering
        Fitted, or loaded from a file.
    X : array-like of shape (n_samples, n_features)
        New rows.
    sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
        Their groups.

    Returns
    -------
    audit : BatchAudit
        A record for all rows, and one for each cluster.

    Examples
    --------
    >>> import numpy as np
    >>> from fairanchor import FairKMeans
    >>> from fairanchor.audit import audit_batch
    >>> rng = np.random.default_rng(0)
    >>> X, groups = rng.normal(size=(400, 2)), rng.choice(["a", "b"], 400)
    >>> model = FairKMeans(2, random_state=0).fit(X, sensitive_features=groups)
    >>> batch = audit_batch(model, X + 100.0, sensitive_features=["a", "c"] * 200)
    >>> batch.share_far, batch.unseen_groups
    (1.0, {'c': 200})
    """
    check_is_fitted(model)
    blind = copy.copy(model).set_params(unknown_groups="blind")
    labels = blind.predict(X, sensitive_features=sensitive_features)
    X = measured_rows(model, check_rows(blind, X, reset=False))
    known = list(model.groups_)
    columns = in_fitted_order(model, sensitive_features)
    codes, unseen = codes_of_known_groups(columns, known, len(X), missing="own_group")
    is_known = codes >= 0
    shape = len(model.counts_), len(known)
    counts = count_cells(labels[is_known], codes[is_known], *shape)
    tables: list[Any] = [("all", counts.sum(axis=0), model.counts_.sum(axis=0))]
    tables += [(l, counts[l], model.counts_[l]) for l in range(shape[0])]
    # Without rows of known groups there is nothing that mirrors the model.
    records, worst = [], 1.0 if is_known.any() else 0.0
    for name, rows, models in tables:
        shares = models / max(models.sum(), 1e-300)
        observed = rows / max(rows.sum(), 1e-300)
        larger = np.maximum(observed, shares)
        closeness = np.divide(
            np.minimum(observed, shares), larger, out=np.ones(len(rows)), where=larger > 0
        )
        r = int(closeness.argmin())
        if name != "all" and rows.sum():
            worst = min(worst, float(closeness[r]))
        records.append(
            {
                "cluster": name,
                "rows": int(rows.sum()),
                "p_value": min(1.0, len(tables) * goodness_of_fit(rows, shares)),
                "group": known[r],
                "share": float(observed[r]),
                "model_share": float(shares[r]),
            }
        )
    _, distances = pairwise_distances_argmin_min(X, model.cluster_centers_)
    typical = np.sqrt(model.inertia_ / model.counts_.sum())
    far = np.flatnonzero(distances > FAR * typical)
    return BatchAudit(records, known, counts, worst, len(X), far, unseen)
