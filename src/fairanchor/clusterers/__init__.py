"""Fair clustering methods, one per file, each an estimator that works alone or on anchors."""

from fairanchor.clusterers._bounded import BoundedFairAssignment
from fairanchor.clusterers._fair_kmeans import FairKMeans
from fairanchor.clusterers._fairlets import FairletClustering
from fairanchor.clusterers._fairness_first import FairnessFirstClustering
from fairanchor.clusterers._one_stage import OneStageFairSpectralClustering
from fairanchor.clusterers._spectral import FairSpectralClustering
from fairanchor.clusterers._variational import VariationalFairClustering

__all__ = [
    "BoundedFairAssignment",
    "FairKMeans",
    "FairSpectralClustering",
    "FairletClustering",
    "FairnessFirstClustering",
    "OneStageFairSpectralClustering",
    "VariationalFairClustering",
]
