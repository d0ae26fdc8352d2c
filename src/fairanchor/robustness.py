"""Fairness when recorded groups are wrong: rewrite some of them, refit, and measure."""

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state, check_scalar

from fairanchor._utils._records import columns_of_records, html_table
from fairanchor._utils._sampling import clone_with_seed
from fairanchor._utils._shared_state import fairness_warnings_ignored, users_stacklevel
from fairanchor._utils._typing import Seed, Table
from fairanchor.exceptions import FairnessWarning
from fairanchor.groups._columns import SeparateColumns, columns_of, text_names
from fairanchor.groups._groups import check_groups
from fairanchor.metrics import attribute_relative_balance_scores, relative_balance_score

__all__ = ["RobustnessResult", "robustness_check"]

ATTACKS = ("random", "search", "flip", "cfc")
# Share of the rows that the attacker controls, unless it is given, and the steps of the curve.
SHARES = {"cfc": 0.3}
STEPS = {"cfc": 8}
# Fits with random groups that an attack is compared with, at each step.
CONTROLS = 5
# Parts of the best attack so far that a search draws again.
REDRAWN = (0.5, 0.2, 0.05)


@dataclass(frozen=True)
class RobustnessResult:
    """What wrong records do to the fairness of the rows whose records are right.

    Attributes
    ----------
    attack : str
        How groups were rewritten.
    n_rows : int
        Number of all rows.
    rows : ndarray of shape (n_controlled,)
        Rows whose groups may be rewritten, in the order in which the curve takes them.
    baseline : float
        Relative balance of the honest rows with all groups as recorded.
    records : list of dict
        One per point of the curve: ``n_rewritten`` rows, their ``share`` of all rows, the lowest
        relative balance of the honest rows that the attack reached (``worst``), its ``median``
        over the fits, the median with random groups (``control``), and ``n_failed`` fits that
        raised an error.
    worst_groups : ndarray
        Groups that the first rows of ``rows`` report in the worst case.
    """

    attack: str
    n_rows: int
    rows: np.ndarray = field(repr=False)
    baseline: float
    records: list[dict[str, Any]]
    worst_groups: np.ndarray = field(repr=False)

    @property
    def curve(self) -> dict[str, np.ndarray]:
        """Columns of the records by name, the baseline first: dict of ndarray."""
        start = dict.fromkeys(("worst", "median", "control"), self.baseline)
        return columns_of_records(
            [{"n_rewritten": 0, "share": 0.0, **start, "n_failed": 0}, *self.records]
        )

    @property
    def worst(self) -> float:
        """Lowest relative balance of the honest rows on the curve."""
        return float(np.nanmin(self.curve["worst"]))

    @property
    def control(self) -> float:
        """Median relative balance with random groups for all rows that may be rewritten."""
        return float(self.records[-1]["control"])

    def _repr_html_(self) -> str:
        """A sentence and a table for notebooks."""
        table = html_table(self.curve, zip(*self.curve.values(), strict=True))
        return (
            f"<p>Relative balance of the {self.n_rows - len(self.rows):,} honest rows, attack "
            f"<code>{self.attack}</code>: <b>{self.baseline:.3f}</b> with all records as they are, "
            f"<b>{self.worst:.3f}</b> in the worst case, {self.control:.3f} with random "
            f"groups.</p>{table}"
        )


def robustness_check(
    estimator: Any,
    X: Table,
    sensitive_features: Table,
    rows: Any = None,
    attack: str = "random",
    n_evaluations: int = 20,
    random_state: Seed = None,
) -> RobustnessResult:
    """Rewrite the recorded groups of some rows, refit, and measure the fairness of the others.

    Counts are exact for *recorded* groups. Rows with a wrong record fill the quotas of a group to
    which they do not belong, and the honest rows are less balanced. With U the rows whose
    records may be wrong, V the honest rows and s the recorded groups, an attack approaches ::

        minimise over s_U   relative_balance_score(labels(X, [s_U, s_V]) on V,  groups of V)

    where the labels are those of a fit of the estimator, which is used as a black box. Features
    stay as they are. The curve takes a growing part of U.

    *Not guaranteed*: that the worst case is the worst possible, which no number of fits can show.
    The cost is that of at most ``n_evaluations + 5`` fits for each point of the curve.

    Parameters
    ----------
    estimator : estimator
        With ``fit(X, sensitive_features=...)`` and ``labels_``. It is cloned; without a
        ``random_state`` all fits get the same one, so that only the groups differ.
    X : array-like of shape (n_samples, n_features)
        Rows.
    sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
        Their groups, which are taken to be true.
    rows : float in (0, 1) or array of row indices, default=None
        The rows whose records may be wrong: a random part of all, or these. None is 0.1, and 0.3
        with ``attack="cfc"``.
    attack : {"random", "search", "flip", "cfc"}, default="random"
        What the rows report. ``"random"``: groups drawn at random, as poor data quality would.
        ``"flip"``: any group but their own. ``"search"``: the worst of all rows in one group, all
        flipped, and random changes of the worst so far. ``"cfc"``: the setting of the fairness
        attack of [1]_: 30 % of the rows, eight points instead of four, and a search from random
        groups.
    n_evaluations : int, default=20
        Fits for each point of the curve.
    random_state : int, RandomState instance or None, default=None
        Determines the rows and what they report.

    Returns
    -------
    result : RobustnessResult
        Curve, worst case and control; it renders in notebooks.

    References
    ----------
    .. [1] A. Chhabra, P. Li, P. Mohapatra, H. Liu, "Robust fair clustering: a novel fairness attack
       and defense framework", ICLR 2023.

    Examples
    --------
    >>> from fairanchor import FairKMeans, robustness_check
    >>> from fairanchor.datasets import make_zafar
    >>> data = make_zafar(600, variant="original", random_state=0)
    >>> result = robustness_check(FairKMeans(3, random_state=0), data.data,
    ...                           data.sensitive_features, attack="flip", n_evaluations=2,
    ...                           random_state=0)
    >>> result.curve["n_rewritten"]
    array([ 0, 15, 30, 45, 60])
    >>> bool(result.worst < result.baseline)
    True
    """
    _check_request(estimator, attack, n_evaluations)
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    groups = check_groups(
        sensitive_features, n_rows, missing=getattr(estimator, "missing_groups", None)
    )
    if groups.n_groups < 2:
        raise ValueError("sensitive_features has one group: a wrong record needs another one.")
    rng = check_random_state(random_state)
    controlled = _controlled_rows(rows, attack, n_rows, rng)
    fits = _Refits(estimator, X, sensitive_features, groups, controlled, rng)
    baseline = fits.score(controlled[:0], np.zeros(0, dtype=np.int64))

    n_steps = STEPS.get(attack, 4)
    sizes = sorted({-(-len(controlled) * step // n_steps) for step in range(1, n_steps + 1)})
    records, lowest, worst_codes = [], np.inf, groups.codes[:0]
    with fairness_warnings_ignored():  # about groups as they are reported
        for size in sizes:
            taken = controlled[:size]
            codes, scores = _attack(attack, fits, taken, n_evaluations, rng)
            control = scores
            if attack != "random":
                draws = rng.randint(groups.n_groups, size=(CONTROLS, size))
                control = [fits.score(taken, codes) for codes in draws]
            records.append(
                {
                    "n_rewritten": size,
                    "share": size / n_rows,
                    "worst": _or_nan(np.nanmin, scores),
                    "median": _or_nan(np.nanmedian, scores),
                    "control": _or_nan(np.nanmedian, control),
                    "n_failed": int(np.isnan(scores).sum()),
                }
            )
            if records[-1]["worst"] < lowest:
                lowest, worst_codes = records[-1]["worst"], codes
    if fits.errors:
        warnings.warn(
            f"{len(fits.errors)} of {fits.n_fits} fits raised an error and have no balance. The "
            f"first: {fits.errors[0]}",
            FairnessWarning,
            stacklevel=users_stacklevel(),
        )
    return RobustnessResult(
        attack, n_rows, controlled, baseline, records, groups.names[worst_codes]
    )


class _Refits:
    """Fits with some groups rewritten, and the relative balance of the honest rows."""

    def __init__(
        self, estimator: Any, X: Table, table: Table, groups: Any, controlled: Any, rng: Any
    ) -> None:
        self.estimator = clone_with_seed(estimator, rng)
        self.X = X
        self.columns, self.names = columns_of(table), text_names(table)
        self.groups = groups
        # A row of each group: what another row reports is a copy of its values.
        self.row_of_group = np.unique(groups.codes, return_index=True)[1]
        self.honest = np.setdiff1d(np.arange(len(groups.codes)), controlled)
        self.truth = self._sensitive_features(self.honest)
        self.separate = getattr(estimator, "attributes", None) == "separate"
        self.n_fits = 0
        self.errors: list[str] = []

    def score(self, rows: np.ndarray, codes: np.ndarray) -> float:
        """Relative balance of the honest rows if ``rows`` report the groups ``codes``."""
        source = np.arange(len(self.groups.codes))
        source[rows] = self.row_of_group[codes]
        self.n_fits += 1
        model = clone(self.estimator)
        try:
            model.fit(self.X, sensitive_features=self._sensitive_features(source))
        except ValueError as error:
            if len(rows) == 0:  # the records as they are
                raise
            self.errors.append(str(error))
            return np.nan
        labels = model.labels_[self.honest]
        if self.separate:
            scores = attribute_relative_balance_scores(labels, sensitive_features=self.truth)
            return min(scores.values())
        return relative_balance_score(labels, sensitive_features=self.truth)

    def _sensitive_features(self, source: np.ndarray) -> Any:
        """The sensitive columns of the rows ``source``."""
        if len(self.columns) == 1:
            return self.columns[0][1][source]
        values = tuple(column[source] for _, column in self.columns)
        return SeparateColumns(values, self.names)


def _attack(
    attack: str, fits: _Refits, rows: np.ndarray, n_evaluations: int, rng: Any
) -> tuple[np.ndarray, list[float]]:
    """The reported groups with the lowest score, and all scores."""
    truth, n_groups = fits.groups.codes[rows], fits.groups.n_groups

    def drawn() -> np.ndarray:
        return rng.randint(n_groups, size=len(rows))

    def flipped() -> np.ndarray:
        return (truth + rng.randint(1, n_groups, size=len(rows))) % n_groups

    def changed(best: np.ndarray) -> np.ndarray:
        return np.where(rng.uniform(size=len(rows)) < rng.choice(REDRAWN), drawn(), best)

    starts: list[Callable[[], np.ndarray]] = [drawn] * max(1, n_evaluations // 4)
    if attack == "random":
        starts = [drawn] * n_evaluations
    elif attack == "flip":
        # Two groups can be flipped in one way only.
        starts = [flipped] * (1 if n_groups == 2 else n_evaluations)
        n_evaluations = len(starts)
    elif attack == "search":
        all_in_one = [lambda code=code: np.full(len(rows), code) for code in range(n_groups)]
        starts = [flipped, *all_in_one, drawn]
    best, lowest, scores = truth, np.inf, []
    for evaluation in range(n_evaluations):
        codes = starts[evaluation]() if evaluation < len(starts) else changed(best)
        score = fits.score(rows, codes)
        if score < lowest:  # not if it is NaN
            best, lowest = codes, score
        scores.append(score)
    return best, scores


def _or_nan(function: Callable, values: list[float]) -> float:
    """The function of the values, or NaN if all of them are."""
    return float(function(values)) if np.isfinite(values).any() else np.nan


def _check_request(estimator: Any, attack: str, n_evaluations: int) -> None:
    if isinstance(estimator, type) or not hasattr(estimator, "get_params"):
        raise TypeError(f"estimator={estimator!r} should be an instance of an estimator.")
    if "sensitive_features" not in inspect.signature(estimator.fit).parameters:
        raise TypeError(
            f"{type(estimator).__name__}.fit has no parameter sensitive_features: rewritten groups "
            "cannot change its labels."
        )
    if attack not in ATTACKS:
        raise ValueError(f"attack={attack!r} should be one of {list(ATTACKS)}.")
    check_scalar(n_evaluations, "n_evaluations", Integral, min_val=1)


def _controlled_rows(rows: Any, attack: str, n_rows: int, rng: Any) -> np.ndarray:
    """Rows that may be rewritten, in a random order."""
    if rows is None:
        rows = SHARES.get(attack, 0.1)
    if isinstance(rows, float):
        if not 0 < rows < 1:
            raise ValueError(f"rows={rows!r} should be a share between 0 and 1, or row indices.")
        return rng.permutation(n_rows)[: max(1, round(rows * n_rows))]
    indices = np.asarray(rows)
    n_different = len(np.unique(indices)) if indices.dtype.kind in "iu" else 0
    if (
        not 0 < n_different < n_rows
        or indices.shape != (n_different,)
        or indices.min() < 0
        or indices.max() >= n_rows
    ):
        raise ValueError(
            f"rows={rows!r} should be a share between 0 and 1, or different row indices in "
            f"0..{n_rows - 1}, of which at least one is not there: an honest row."
        )
    return rng.permutation(indices)
