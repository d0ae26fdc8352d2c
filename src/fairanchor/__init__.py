"""Fair clustering at scale: clusters whose group composition is what was asked for.

Public names are imported when first used, so that ``import fairanchor`` and the
command line's ``--help`` do not pay for numba and scikit-learn.
"""

from importlib import import_module
from typing import Any

__version__ = "0.2.0.dev0"

_PUBLIC = {
    "AnchorFairClustering": "fairanchor._anchor_clustering",
    "BoundedFairAssignment": "fairanchor.clusterers",
    "FDAS": "fairanchor.anchors",
    "FairKMeans": "fairanchor.clusterers",
    "FairSpectralClustering": "fairanchor.clusterers",
    "FairletClustering": "fairanchor.clusterers",
    "FairnessFirstClustering": "fairanchor.clusterers",
    "FairnessTargets": "fairanchor._fairness_targets",
    "OneStageFairSpectralClustering": "fairanchor.clusterers",
    "VariationalFairClustering": "fairanchor.clusterers",
    "FairnessWarning": "fairanchor.exceptions",
    "LocalGraph": "fairanchor.graph",
    "ReconstructionGraph": "fairanchor.graph",
    "clusters_path": "fairanchor._fairness_path",
    "fair_assign": "fairanchor._fair_assign",
    "fairness_path": "fairanchor._fairness_path",
    "load_model": "fairanchor.persistence",
    "suggest_tolerance": "fairanchor._fairness_path",
}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
