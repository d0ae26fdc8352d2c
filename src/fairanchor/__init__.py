"""Fair clustering at scale: clusters with the group composition that you specify.

Public names are imported when first used, so that ``import fairanchor`` and the
command line's ``--help`` do not pay for numba and scikit-learn.
"""

from importlib import import_module
from typing import Any

__version__ = "0.2.0.dev0"

_PUBLIC = {
    "AnchorFairClustering": "fairanchor.cluster._anchor_clustering",
    "BoundedFairAssignment": "fairanchor.cluster",
    "ConsensusClustering": "fairanchor.cluster",
    "DeepFairClustering": "fairanchor.cluster",
    "FDAS": "fairanchor.anchors",
    "FairKMeans": "fairanchor.cluster",
    "FairSpectralClustering": "fairanchor.cluster",
    "FairletClustering": "fairanchor.cluster",
    "FairnessFirstClustering": "fairanchor.cluster",
    "FairnessTargets": "fairanchor.constraints._fairness_targets",
    "OneStageFairSpectralClustering": "fairanchor.cluster",
    "SociallyFairKMeans": "fairanchor.cluster",
    "VariationalFairClustering": "fairanchor.cluster",
    "FairnessWarning": "fairanchor.exceptions",
    "LocalGraph": "fairanchor.graph",
    "ReconstructionGraph": "fairanchor.graph",
    "antidote_rows": "fairanchor.antidote",
    "clusters_path": "fairanchor.model_selection",
    "cost_by_group": "fairanchor.audit",
    "describe_clusters": "fairanchor.audit",
    "fair_assign": "fairanchor.assignment._fair_assign",
    "fairness_path": "fairanchor.model_selection",
    "load_model": "fairanchor.persistence",
    "robustness_check": "fairanchor.robustness",
    "suggest_tolerance": "fairanchor.model_selection",
}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
