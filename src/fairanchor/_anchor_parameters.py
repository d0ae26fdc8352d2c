"""What the parameters of `AnchorFairClustering` may be, and what they stand for.

Tables of names and the rules by which "auto" and combinations of parameters become numbers,
targets and limits. The parameters themselves are described where users look for them, in the
class.
"""

from numbers import Integral, Real

from fairanchor._fairness_rule import is_limits, nearest_targets, rule_of
from fairanchor._fairness_targets import FairnessTargets
from fairanchor._sklearn_compat import HasMethods, Interval, StrOptions
from fairanchor.assignment._propagate import ASSIGNMENTS
from fairanchor.clusterers._registry import CLUSTERERS
from fairanchor.graph import ADMMSolver, NewtonSolver, fairness_targets
from fairanchor.graph._targets import TARGETS

SOLVERS = {"newton": NewtonSolver, "admm": ADMMSolver}
# Fair Lloyd steps after propagation; a clusterer that does not minimise the k-means cost
# would lose what it was chosen for.
DEFAULT_REFINE = {"fair_kmeans": 20}
AS_IN_PAPER = {
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
CONSTRAINTS = {
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
    "graph_rows": [StrOptions({"auto", "all"})],
    "max_iter": [None, Interval(Integral, 1, None, closed="left")],
    "tol": [Interval(Real, 0, None, closed="neither")],
    "n_jobs": [None, Integral],
    "random_state": ["random_state"],
}


def refine_steps(estimator):
    """Number of fair Lloyd steps after propagation."""
    if isinstance(estimator.refine, str):
        named = estimator.clusterer if isinstance(estimator.clusterer, str) else None
        return DEFAULT_REFINE.get(named, 0) if estimator.assignment == "balanced" else 0
    if estimator.refine > 0 and estimator.assignment != "balanced":
        raise ValueError(
            f"refine={estimator.refine} needs assignment='balanced', got "
            f"{estimator.assignment!r}: every refinement step is a balanced assignment."
        )
    return estimator.refine


def targets_and_rule(estimator, problem, rows, summary, groups, attributes, units):
    """Targets of the anchor graph, and limits on the labels if they do not have the targets."""
    named = isinstance(estimator.fairness, str)
    # Limits say nothing about the anchors: how these are sized does not matter then.
    table = estimator.fairness if named or not is_limits(estimator.fairness) else "population"
    targets = fairness_targets(table, summary, groups, unit=units.weight)
    rule = rule_of(
        estimator.fairness, estimator.tolerance, attributes, groups, rows,
        min_size=summary.min_size, targets=targets, unit=units.weight,
    )  # fmt: skip
    return (targets, None) if rule is None else (nearest_targets(rule, problem, rows), rule)
