"""Tables of every kind for every entry of the library: a valid result or a documented error.

Strategies of hypothesis draw tables that people really bring, and some that nobody should. Whatever
comes out of the library is compared with counts made here, from the labels alone.
"""

import linecache
import tempfile
import traceback
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

import fairanchor
from fairanchor import FairnessWarning, metrics

DTYPES = ("float64", "float32", "float16", ">f8", "int64", "int8", "uint16", "bool", "object")
LAYOUTS = ("C", "F", "strided", "reversed", "read-only", "memory-mapped", "list")
KINDS = (
    "normal",
    "whole numbers",
    "few distinct",
    "all equal",
    "constant column",
    "outlier",
    "line",
)
# Powers of ten: all of these must work, those of `TOO_FAR` must be refused.
POWERS = (0, 0, 0, 0, 3, -3, 30, -30, 100, -100, 149, -149)
TOO_FAR = (160, 200, 300, -160, -250)
EXACT = ("AnchorFairClustering", "FairKMeans")
ANNOUNCED = (FairnessWarning, ConvergenceWarning)


class Violation(AssertionError):
    """The library broke a promise."""


@dataclass
class Case:
    """A table, its groups and what is asked for."""

    X: object
    groups: object
    n_clusters: int
    weights: object
    refusal: str | None
    notes: dict = field(default_factory=dict)

    def __repr__(self):
        return f"Case({self.notes})"


def rows_of(kind, n, d, rng):
    """Rows of one kind."""
    if kind == "whole numbers":
        return rng.integers(-4, 5, size=(n, d)).astype(float)
    if kind == "few distinct":
        return rng.normal(size=(3, d))[rng.integers(0, 3, size=n)]
    if kind == "all equal":
        return np.ones((n, d))
    X = rng.normal(size=(n, d))
    if kind == "constant column":
        X[:, 0] = 7.0
    if kind == "outlier":
        X[0] = 1e6
    if kind == "line":
        X = np.outer(X[:, 0], np.arange(1.0, d + 1))
    return X


def with_layout(X, layout, folder):
    """The same numbers, elsewhere in memory."""
    if layout == "F":
        return np.asfortranarray(X)
    if layout == "strided":
        wide = np.zeros((2 * len(X), 2 * X.shape[1]), dtype=X.dtype)
        wide[::2, ::2] = X
        return wide[::2, ::2]
    if layout == "reversed":
        return np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1]
    if layout == "read-only":
        X = X.copy()
        X.flags.writeable = False
    if layout == "memory-mapped" and X.dtype != object:
        path = Path(folder) / "rows.npy"
        np.save(path, X)
        return np.load(path, mmap_mode="r")
    return X.tolist() if layout == "list" else X


def named_groups(codes, naming):
    """Groups as people write them."""
    if naming == "text":
        return np.array([f"group {code}" for code in codes])
    if naming == "objects":
        return np.array([("a", code) if code % 2 else code for code in codes] + [None], object)[:-1]
    if naming == "truth":
        return codes % 2 == 1
    if naming == "numbers":
        return codes - 0.5
    if naming == "two columns":
        return np.column_stack([codes % 2, codes // 2])
    return codes


@st.composite
def cases(draw, most_rows=60):
    """A `Case`; one in five must be refused, and says why."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d = draw(st.integers(1, most_rows)), draw(st.integers(1, 5))
    kind, dtype = draw(st.sampled_from(KINDS)), draw(st.sampled_from(DTYPES))
    layout = draw(st.sampled_from(LAYOUTS))
    n_groups = draw(st.sampled_from([1, 2, 2, 3, 5, n]))
    naming = draw(st.sampled_from(["codes", "text", "objects", "truth", "numbers", "two columns"]))
    refusal = draw(st.sampled_from([None] * 4 * len(REFUSALS) + list(REFUSALS)))
    power = draw(st.sampled_from(POWERS)) if dtype in ("float64", ">f8", "object") else 0
    X = rows_of(kind, n, d, rng) * 10.0**power
    if dtype == "float16" or abs(power) > 100:
        X = np.clip(X, -1e2 * 10.0**power, 1e2 * 10.0**power)
    skew = draw(st.sampled_from([0.0, 3.0]))
    shares = (1.0 + np.arange(n_groups)) ** -skew
    codes = rng.choice(n_groups, size=n, p=shares / shares.sum())
    case = Case(
        with_layout(X.astype(dtype), layout, tempfile.mkdtemp()),
        named_groups(codes, naming),
        draw(st.integers(1, min(n, 6))),
        draw(st.sampled_from([None, None, "ones", "whole", "any", "some zero"])),
        refusal,
    )
    case.weights = weights_of(case.weights, n, rng)
    case.notes = {"n": n, "d": d, "kind": kind, "dtype": dtype, "layout": layout, "power": power,
                  "groups": n_groups, "naming": naming, "refusal": refusal,
                  "clusters": case.n_clusters, "weights": case.weights is not None}  # fmt: skip
    if refusal is not None:
        REFUSALS[refusal](case, X, rng)
    return case


def weights_of(kind, n, rng):
    if kind is None:
        return None
    if kind == "ones":
        return np.ones(n)
    if kind == "whole":
        return rng.integers(1, 5, size=n)
    weights = rng.uniform(0.1, 3.0, size=n)
    if kind == "some zero":
        weights[rng.random(n) < 0.2] = 0.0
        weights[0] = 1.0
    return weights


# What must be refused.


def missing_value(case, X, rng):
    X = X.copy()
    X[rng.integers(len(X)), 0] = rng.choice([np.nan, np.inf, -np.inf])
    case.X = X


def too_far(case, X, rng):
    if not X.any():
        X = X + 1.0
    power = int(rng.choice(TOO_FAR))
    with np.errstate(over="ignore", under="ignore"):
        case.X = X / np.abs(X).max() * 10.0**power


def too_many_clusters(case, X, rng):
    case.n_clusters = len(X) + 1


def groups_of_another_length(case, X, rng):
    case.groups = np.zeros(len(X) + 1)


def missing_group(case, X, rng):
    case.groups = [None, *["a"] * (len(X) - 1)]


def negative_weight(case, X, rng):
    case.weights = np.full(len(X), -1.0)


def weights_of_another_length(case, X, rng):
    case.weights = np.ones(len(X) + 1)


def no_rows(case, X, rng):
    case.X, case.groups, case.weights = X[:0], [], None


def three_dimensions(case, X, rng):
    case.X = X[:, :, None]


def words(case, X, rng):
    case.X = np.full(X.shape, "many", dtype=object)


REFUSALS = {
    "NaN or infinity": missing_value,
    "beyond the range": too_far,
    "too many clusters": too_many_clusters,
    "groups of another length": groups_of_another_length,
    "missing group": missing_group,
    "negative weight": negative_weight,
    "weights of another length": weights_of_another_length,
    "no rows": no_rows,
    "three dimensions": three_dimensions,
    "words": words,
}


# What must hold.

ESTIMATORS = {
    "AnchorFairClustering": {},
    "FairKMeans": {"n_init": 2},
    "FairSpectralClustering": {},
    "VariationalFairClustering": {},
    "OneStageFairSpectralClustering": {},
    "FairletClustering": {},
    "FairnessFirstClustering": {},
    "BoundedFairAssignment": {},
    "ConsensusClustering": {"n_runs": 20},
}
SETTINGS = (
    {}, {"clusterer": "fair_kmeans"}, {"anchors": "fdas"}, {"anchors": "random"},
    {"fairness": "anchors"}, {"fairness": "anchors_sized"}, {"tolerance": 0.3},
    {"graph": "reconstruction"}, {"graph": fairanchor.ReconstructionGraph(alpha=1e-6)},
    {"graph": fairanchor.ReconstructionGraph(solver="admm", max_iter=3), "assignment": "argmax"},
)  # fmt: skip


def check_fit(name, case, **parameters):
    """Fit an estimator to a case; raises `Violation`, returns "valid" or "error"."""
    import inspect

    model_class = getattr(fairanchor, name)
    takes_weights = "sample_weight" in inspect.signature(model_class.fit).parameters
    weights = {} if case.weights is None or not takes_weights else {"sample_weight": case.weights}
    model = model_class(case.n_clusters, random_state=0, **(ESTIMATORS[name] | parameters))
    before = np.array(case.X, copy=True) if isinstance(case.X, np.ndarray) else None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(case.X, sensitive_features=case.groups, **weights)
        except (ValueError, TypeError) as error:
            check_error(error)
            if case.refusal is None and not documented_limit(name, error):
                raise Violation(f"a good table was refused: {error}") from error
            return "error"
    check_warnings(caught)
    if case.refusal is not None and not may_be_accepted(case, weights):
        raise Violation(f"a table with {case.refusal} was accepted")
    if before is not None and before.tolist() != case.X.tolist():
        raise Violation("the rows were changed")
    check_labels(name, model, case, weights)
    if name in EXACT:
        check_exact(model, case, weights)
        check_prediction(model, case)
    return "valid"


def may_be_accepted(case, weights):
    """Whether what is wrong with a case does not concern this estimator."""
    return "weight" in case.refusal and not weights


# Limits that a docstring states, and that a small random table may meet.
LIMITS = ("two groups", "2 groups", "fewer rows", "rows with a positive weight",
          "should be >= n_clusters", "min_cluster_size", "n_anchors", "cannot be met",
          "number of fairlets",
          "does not take sample_weight",
          "fewer than n_clusters", "expected between 1e-50 and 1e+50")  # fmt: skip


def documented_limit(name, error):
    return any(limit in str(error) for limit in LIMITS)


def check_error(error):
    """An error of the library says something, and was raised on purpose."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    line = linecache.getline(frame.filename, frame.lineno).strip()
    place = Path(frame.filename).parts
    ours = "fairanchor" in place or "sklearn" in place
    on_purpose = line.startswith("raise ") and ours
    # NumPy's own message about text that is no number is clear, and scikit-learn passes it on.
    if not on_purpose and "could not convert" not in str(error):
        raise Violation(f"not raised on purpose: {error!r} at {frame.name}: {line}") from error
    if len(str(error)) < 20:
        raise Violation(f"says too little: {error!r}") from error


def check_warnings(caught):
    for warning in caught:
        known = issubclass(warning.category, ANNOUNCED) or "alpha is" in str(warning.message)
        if not known:
            raise Violation(f"a warning that is not the library's: {warning.message!r}")


def check_labels(name, model, case, weights):
    """Every row has one label, every cluster a row, and the counts are those of the labels."""
    labels, n = model.labels_, len(case.X)
    if labels.shape != (n,) or labels.dtype.kind != "i":
        raise Violation(f"labels of shape {labels.shape} and type {labels.dtype} for {n} rows")
    if set(labels.tolist()) - set(range(case.n_clusters)):
        raise Violation(f"labels outside 0..{case.n_clusters - 1}: {set(labels.tolist())}")
    each = np.asarray(weights.get("sample_weight", np.ones(n)), dtype=float)
    table = recount(labels, case.groups, case.n_clusters, each)
    found = np.asarray(model.counts_, dtype=float)
    if found.shape != table.shape or not np.allclose(in_order(found), in_order(table)):
        raise Violation(f"counts_ are {model.counts_.tolist()}, the labels have {table.tolist()}")


def in_order(table):
    """The columns of a table in an order that does not depend on the names of the groups."""
    return table[:, np.lexsort(np.round(table, 6))]


def recount(labels, groups, n_clusters, weights):
    """Clusters × groups, by a loop over the rows; groups in order of appearance."""
    names = [str(g) for g in (groups.tolist() if hasattr(groups, "tolist") else groups)]
    columns = {name: k for k, name in enumerate(dict.fromkeys(names))}
    table = np.zeros((n_clusters, len(columns)))
    for label, name, weight in zip(labels, names, weights, strict=True):
        table[label, columns[name]] += weight
    return table


def check_exact(model, case, weights):
    """Counts within a row of their targets, finite certificates, and honesty about failure."""
    for name in ("mass_error_", "duality_gap_", "worst_violation_", "inertia_"):
        value = getattr(model, name, 0.0)
        if not np.isfinite(value):
            raise Violation(f"{name} is {value}")
    if not np.isfinite(model.assignment_prices_).all():
        raise Violation("assignment_prices_ are not finite")
    balanced = getattr(model, "assignment", "balanced") == "balanced"
    if balanced and not weights and not model.worst_violation_ < 1:
        raise Violation(f"a cell misses its target by {model.worst_violation_} rows")
    if not weights and model.counts_.sum() != len(case.X):
        raise Violation(f"{model.counts_.sum()} rows counted of {len(case.X)}")


def check_prediction(model, case):
    """Labels and memberships of the same rows: labels in range, memberships on the simplex."""
    given = {"sensitive_features": case.groups}
    labels = model.predict(case.X, **given)
    if labels.shape != (len(case.X),) or not 0 <= labels.min() <= labels.max() < case.n_clusters:
        raise Violation(f"predict gave {labels}")
    if not hasattr(model, "predict_proba"):
        return
    for soft in (model.predict_proba(case.X, **given), model.transform(case.X, **given).toarray()):
        if not (soft >= -1e-12).all() or not np.allclose(soft.sum(axis=1), 1.0, atol=1e-6):
            raise Violation(f"rows off the simplex: {soft.min()}, {soft.sum(axis=1)}")


SCORES = (
    "balance_score", "relative_balance_score", "mnce_score", "attribute_balance_scores",
    "attribute_mnce_scores", "attribute_relative_balance_scores", "worst_violation",
)  # fmt: skip


def check_metrics(case, rng):
    """All measures of random labels: finite and in range, or a documented error."""
    n = len(case.X)
    labels = rng.integers(0, max(1, case.n_clusters), size=n)
    weights = {} if case.weights is None else {"sample_weight": case.weights}
    for name in SCORES:
        try:
            value = getattr(metrics, name)(labels, sensitive_features=case.groups, **weights)
        except (ValueError, TypeError) as error:
            check_error(error)
            if case.refusal is None:
                raise Violation(f"{name} refused good labels: {error}") from error
            continue
        values = list(value.values()) if isinstance(value, dict) else [value]
        top = np.inf if name == "worst_violation" else 1.0 + 1e-9
        if not all(0.0 <= v <= top for v in np.asarray(values, dtype=float)):
            raise Violation(f"{name} is {value}")
    return "valid"
