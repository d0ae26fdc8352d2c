"""Deep fair clustering: a network whose memberships follow exact fair assignments."""

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral, Real
from types import ModuleType
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import log_softmax
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils.validation import check_is_fitted

from fairanchor._utils._shared_state import (
    one_thread,
    warn_unfair,
)
from fairanchor._utils._sklearn_compat import Interval, StrOptions
from fairanchor._utils._typing import Seed, Table
from fairanchor.assignment import largest_remainder, raise_small_sizes
from fairanchor.assignment._fair_assign import FairAssignment, fair_assign
from fairanchor.cluster._base import (
    COMMON_CONSTRAINTS,
    FairClusterer,
    WeightedRows,
    check_rows,
    fill_empty_clusters,
    known_codes,
)
from fairanchor.constraints import FairnessTargets
from fairanchor.groups._groups import Groups

# Rows that pass through the network at once.
BLOCK_ROWS = 10_000


class DeepFairClustering(ClassNamePrefixFeaturesOutMixin, TransformerMixin, FairClusterer):
    r"""Clustering by a neural network, with an exact composition of groups (DFDC, DFC).

    A network maps a row x to a code z, and the code to memberships y of the clusters. The labels
    solve the fair assignment exactly, by `fair_assign`:

    .. math:: \min_{\text{labels}} \; -\sum_i \log y_{i,\,\text{label}(i)}
              \quad \text{s.t.} \quad N_{lr} = N_l \, \pi_r ,

    where N[l, r] counts the rows of group r in cluster l, pi is the composition of the data, and
    cluster l has as many rows, N_l, as have their largest membership there.

    *DFDC*, deep fair discriminative clustering, solves this problem in every epoch of the second
    half of the training, and minimises over the network

    .. math:: \frac1n \sum_i h(y_i) - 4\, h\Bigl(\frac1n \sum_i y_i\Bigr)
              + 10\, R - \frac{\beta}{n} \sum_i \log y_{i,\,\text{label}(i)},

    where h is the entropy and R the change of the memberships under the worst small change of
    x (virtual adversarial training). Assignment and network thus lower the same last term. The
    publication maximises the sum of y instead of log y in the assignment, which leaves ties where
    memberships are near 0 or 1.

    *DFC*, deep fair clustering, trains an autoencoder, then a network on each group alone, then
    the network of all groups: its memberships (Student's t distribution around centres in the
    space of codes) become sharper within each group, keep the similarities of the group's own
    network, and mislead a critic that guesses the group from them. The labels are assigned once,
    at the end; the publication has no such step, and its clusters are far from balanced. The
    encoder is a perceptron instead of a convolutional variational network.

    Any number of groups. DFC trains a network for each of them.

    *Guaranteed for the labels*: cluster sizes and group sizes are exact, and every cell of the
    table clusters × groups is its target, rounded up or down; no labels with these counts have
    a larger product of memberships. With a tolerance, shares are within its bounds, up to a row.
    *Not guaranteed*: the least loss, since training is a local search whose result
    depends on the seed; and the composition of rows that are predicted later.

    The network rescales all features by one number, so their relative scales matter: standardise
    them unless their units are comparable. ``sample_weight`` is how often a row is drawn in
    training, and its weight in the counts, which are then exact up to the weights of a few rows.

    **Cost**: linear in the number of rows, of epochs, and of weights of the network. Training
    runs on one thread of the CPU: about half a second for an epoch of 10,000 rows with 64 features.

    PyTorch is needed for `fit`, not for `predict` and `transform`:
    ``pip install "fairanchor[deep]"``.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    method : {"dfdc", "dfc"}, default="dfdc"
        The method.
    fairness_weight : float, default=None
        DFDC: the weight beta of the fair labels, 10 by default. The publication's rule is the
        smallest one with which memberships have the wanted balance. DFC: the weight of the
        critic, 1 by default.
    tolerance : float in [0, 1], default=0.0
        A group's share of a cluster is in ``[(1 - tolerance) pi, pi / (1 - tolerance)]``.
    hidden_layer_sizes : tuple of int, default=(256, 256)
        Sizes of the layers between features and codes.
    code_size : int, default=64
        Length of a code.
    batch_size : int, default=256
        Number of rows in a training step.
    learning_rate : float, default=1e-3
        Learning rate of Adam.
    max_iter : int, default=100
        Number of epochs in all. An epoch is a pass over the rows, or several, with at least 20
        batches.
    verbose : bool, default=False
        Whether to show a progress bar on stderr.
    random_state : int, RandomState instance or None, default=None
        Determines first weights, batches and perturbations.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each row, from the last exact assignment.
    counts_ : ndarray of shape (n_clusters, n_groups)
        Rows (or weight) in each cell, groups as in ``groups_``.
    dual_variables_ : ndarray of shape (n_clusters, n_groups)
        Dual variables of the last assignment: row i of group r has the least
        ``-log y[i, l] - dual_variables_[l, r]`` at its label, ties excepted.
    worst_violation_ : float
        By how many rows the worst cell misses its target, or the worst share its bounds.
    balance_ : float
        Smallest group over largest, in the worst cluster.
    groups_ : ndarray of shape (n_groups,)
        Names of the groups.
    n_iter_ : int
        Number of epochs.
    n_features_in_ : int
        Number of features.

    See Also
    --------
    fair_assign : The exact assignment, for the memberships of your own network.

    References
    ----------
    .. [1] H. Zhang, I. Davidson, "Deep fair discriminative clustering", arXiv:2105.14146, 2021.
    .. [2] P. Li, H. Zhao, H. Liu, "Deep fair clustering for visual learning", CVPR 2020.
    .. [3] W. Hu, T. Miyato, S. Tokui, E. Matsumoto, M. Sugiyama, "Learning discrete
       representations via information maximizing self-augmented training", ICML 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from fairanchor import DeepFairClustering
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3)) + 8.0 * np.eye(2, 3)[np.arange(200) % 2]
    >>> group = rng.choice(["a", "b"], size=200)
    >>> model = DeepFairClustering(2, hidden_layer_sizes=(20,), max_iter=10, random_state=0)
    >>> float(model.fit(X, sensitive_features=group).worst_violation_) < 1
    True
    >>> model.transform(X).shape
    (200, 64)
    """

    __metadata_request__predict = {"sensitive_features": True}

    _parameter_constraints: dict = {
        **COMMON_CONSTRAINTS,
        "method": [StrOptions({"dfdc", "dfc"})],
        "fairness_weight": [Interval(Real, 0, None, closed="left"), None],
        "tolerance": [Interval(Real, 0, 1, closed="both")],
        "hidden_layer_sizes": ["array-like"],
        "code_size": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "verbose": ["boolean"],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        method: str = "dfdc",
        fairness_weight: float | None = None,
        tolerance: float = 0.0,
        hidden_layer_sizes: Any = (256, 256),
        code_size: int = 64,
        batch_size: int = 256,
        learning_rate: float = 1e-3,
        max_iter: int = 100,
        verbose: bool = False,
        random_state: Seed = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.method = method
        self.fairness_weight = fairness_weight
        self.tolerance = tolerance
        self.hidden_layer_sizes = hidden_layer_sizes
        self.code_size = code_size
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.verbose = verbose
        self.random_state = random_state

    def _fit(self, X: np.ndarray, groups: Groups, weights: np.ndarray) -> np.ndarray:
        deep = _import_training()
        _check_layers(self.hidden_layer_sizes)
        rows = WeightedRows(X, groups.codes, weights, self.n_clusters, groups.n_groups)
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        center, length = _center_and_length(X, weights)

        def labels_of(log_y: np.ndarray) -> np.ndarray:
            return self._assign(log_y, rows).labels

        training = deep.Training(
            (X - center) / length, rows.codes,
            None if rows.has_equal_weights else weights, labels_of, seed,
        )  # fmt: skip
        layers, head = deep.train(self, training, self._epochs())
        self._network = Network(center, length, layers, head)
        log_y = self._network.log_memberships(X)
        assignment = self._assign(log_y, rows)
        n_empty = self.n_clusters - len(np.unique(np.argmax(log_y, axis=1)))
        if n_empty:
            warn_unfair(
                f"{n_empty} of n_clusters={self.n_clusters} clusters have no row's largest "
                "membership and get a single row each, and hence one group. Fewer clusters, more "
                "epochs (max_iter) or another random_state may suit these rows better."
            )
        self._prices = dict(zip(groups.names, assignment.dual_variables.T, strict=True))
        self.worst_violation_ = assignment.worst_violation
        self.n_iter_ = self.max_iter
        self._n_features_out = self.code_size
        return fill_empty_clusters(X, assignment.labels, self.n_clusters)[0]

    def _assign(self, log_y: np.ndarray, rows: WeightedRows) -> FairAssignment:
        """Labels of the largest memberships in clusters with the composition of the rows.

        Clusters are as large as memberships alone make them, with a row at least: free sizes
        would let clusters vanish that groups do not share.
        """
        if not np.isfinite(log_y).all():
            raise ValueError(
                f"The training diverged with learning_rate={self.learning_rate}: memberships are "
                "not finite. Use a smaller learning_rate."
            )
        sizes = np.bincount(np.argmax(log_y, axis=1), rows.weights, self.n_clusters)
        unit = rows.weights.min()
        sizes = raise_small_sizes(sizes, unit)
        if rows.has_equal_weights:
            sizes = unit * largest_remainder(sizes, len(log_y))
        shares = np.bincount(rows.codes, rows.weights) / rows.weights.sum()
        fairness: Any = np.outer(sizes, shares)
        if self.tolerance > 0:
            fairness = FairnessTargets(tolerance=self.tolerance, min_size=sizes, max_size=sizes)
        return fair_assign(
            -log_y, sensitive_features=rows.codes, fairness=fairness, sample_weight=rows.weights
        )

    def _store_labels(self, labels: np.ndarray, groups: Groups, *arguments: Any) -> None:
        super()._store_labels(labels, groups, *arguments)
        free = np.zeros(self.n_clusters)  # of a group without weight
        prices = [self._prices.get(name, free) for name in groups.public_names]
        self.dual_variables_ = np.column_stack(prices)

    def _epochs(self) -> Iterator[int]:
        """Numbers of the epochs, with a progress bar if it is wanted."""
        if not self.verbose:
            yield from range(self.max_iter)
            return
        from rich.console import Console
        from rich.progress import track

        name = f"{type(self).__name__} ({self.method})"
        yield from track(range(self.max_iter), name, console=Console(stderr=True))

    def predict(self, X: Table, *, sensitive_features: Table | None = None) -> np.ndarray:
        """Label new rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            New rows.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            Their groups. With them, labels follow from memberships and the dual variables of
            the last assignment: on the training rows this gives ``labels_``, ties excepted (and,
            with unequal weights, the few rows that had to be rounded). None takes the largest
            membership, for which no group is needed; how fair that is depends on the training.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Cluster of each row.
        """
        check_is_fitted(self)
        log_y = self._log_memberships(X)
        if sensitive_features is not None or len(self.groups_) == 1:
            codes, _ = known_codes(self, sensitive_features, len(log_y))
            log_y += self.dual_variables_.T[codes]
        return np.argmax(log_y, axis=1).astype(np.int32)

    def predict_proba(self, X: Table) -> np.ndarray:
        """Memberships of new rows, which need no groups.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            New rows.

        Returns
        -------
        memberships : ndarray of shape (n_samples, n_clusters)
            Positive rows that sum to one.
        """
        check_is_fitted(self)
        return np.exp(self._log_memberships(X))

    def transform(self, X: Table) -> np.ndarray:
        """Codes of new rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            New rows.

        Returns
        -------
        codes : ndarray of shape (n_samples, code_size)
            What the clusters are made from.
        """
        check_is_fitted(self)
        X = check_rows(self, X, reset=False)
        with one_thread():
            return self._network.codes(X)

    def _log_memberships(self, X: Table) -> np.ndarray:
        X = check_rows(self, X, reset=False)
        with one_thread():
            return self._network.log_memberships(X)


def _center_and_length(X: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Mean, and the length in which features have on average a variance of one."""
    center = np.average(X, axis=0, weights=weights)
    variance = np.average(((X - center) ** 2).mean(axis=1), weights=weights)
    # A variance that is only rounding errors would be magnified to noise.
    noise = (1e-12 * np.abs(X).max()) ** 2
    return center, float(np.sqrt(variance)) if variance > noise else 1.0


@dataclass(frozen=True)
class Network:
    """A trained network as arrays, so that a model can be used and stored without PyTorch.

    The head has weights and biases (softmax), or centres and None (Student's t distribution).
    """

    center: np.ndarray
    length: float
    layers: list[tuple[np.ndarray, np.ndarray]]
    head: tuple[np.ndarray, np.ndarray | None]

    def codes(self, X: np.ndarray) -> np.ndarray:
        """Codes of rows, block by block."""
        return np.vstack([self._codes_of_block(X[s]) for s in gen_batches(len(X), BLOCK_ROWS)])

    def _codes_of_block(self, X: np.ndarray) -> np.ndarray:
        Z = (X - self.center) / self.length
        for weights, biases in self.layers[:-1]:
            Z = np.maximum(Z @ weights + biases, 0.0)
        weights, biases = self.layers[-1]
        return Z @ weights + biases

    def log_memberships(self, X: np.ndarray) -> np.ndarray:
        """Logarithms of the memberships of rows."""
        Z = self.codes(X)
        weights, biases = self.head
        if biases is None:
            return log_softmax(-np.log1p(cdist(Z, weights, "sqeuclidean")), axis=1)
        return log_softmax(Z @ weights + biases, axis=1)


def _import_training() -> ModuleType:
    try:
        from fairanchor.cluster import _deep_training
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError(
            "DeepFairClustering needs PyTorch, which is not installed: "
            'pip install "fairanchor[deep]".'
        ) from error
    return _deep_training


def _check_layers(sizes: Any) -> None:
    if not all(isinstance(size, Integral) and int(size) >= 1 for size in sizes):
        raise ValueError(
            f"hidden_layer_sizes={sizes!r} should be a sequence of whole numbers of at least 1."
        )
