"""Clusterers by the names that `AnchorFairClustering` takes."""

from fairanchor.cluster._bounded import BoundedFairAssignment
from fairanchor.cluster._fair_kmeans import FairKMeans
from fairanchor.cluster._fairlets import FairletClustering
from fairanchor.cluster._fairness_first import FairnessFirstClustering
from fairanchor.cluster._one_stage import OneStageFairSpectralClustering
from fairanchor.cluster._spectral import FairSpectralClustering
from fairanchor.cluster._variational import VariationalFairClustering

CLUSTERERS = {
    "fair_kmeans": FairKMeans,
    "spfc": FairSpectralClustering,
    "vfc": VariationalFairClustering,
    "fmsc": OneStageFairSpectralClustering,
    "fairlets": FairletClustering,
    "ffc": FairnessFirstClustering,
    "bounded": BoundedFairAssignment,
}


def check_clusterer(clusterer):
    """The estimator or callable that is meant."""
    if clusterer is None:
        return FairSpectralClustering()
    if isinstance(clusterer, str):
        return CLUSTERERS[clusterer]()
    if isinstance(clusterer, type):
        raise TypeError(
            f"clusterer is the class {clusterer.__name__}, expected an instance of it: "
            f"{clusterer.__name__}()."
        )
    if hasattr(clusterer, "fit") or callable(clusterer):
        return clusterer
    raise TypeError(
        f"clusterer={clusterer!r} should be one of {sorted(CLUSTERERS)}, an estimator with fit, "
        "or a callable f(anchors, sensitive_features, n_clusters, *, sample_weight, random_state)."
    )
