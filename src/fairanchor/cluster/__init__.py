"""Fair clustering methods, one per file, each an estimator that works alone or on anchors.

`_base` is what they share, `_on_anchors` is module 2 of the paper: any of them, by name, or any
other estimator, on the anchors. `FairKMeans` and the framework, `_anchor_clustering`, share
`_large_scale` and `_fair_lloyd`; the spectral methods share `_affinity`.
"""

from fairanchor.cluster._bounded import BoundedFairAssignment
from fairanchor.cluster._consensus import ConsensusClustering
from fairanchor.cluster._deep import DeepFairClustering
from fairanchor.cluster._fair_kmeans import FairKMeans
from fairanchor.cluster._fairlets import FairletClustering
from fairanchor.cluster._fairness_first import FairnessFirstClustering
from fairanchor.cluster._one_stage import OneStageFairSpectralClustering
from fairanchor.cluster._socially_fair import SociallyFairKMeans
from fairanchor.cluster._spectral import FairSpectralClustering
from fairanchor.cluster._variational import VariationalFairClustering

__all__ = [
    "BoundedFairAssignment",
    "ConsensusClustering",
    "DeepFairClustering",
    "FairKMeans",
    "FairSpectralClustering",
    "FairletClustering",
    "FairnessFirstClustering",
    "OneStageFairSpectralClustering",
    "SociallyFairKMeans",
    "VariationalFairClustering",
]
