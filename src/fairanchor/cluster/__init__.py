"""Fair clustering methods, one per file, each an estimator that works alone or on anchors.

`_base` is what they share, `_registry` has their names, `_on_anchors` is module 2 of the paper: any
of them, or a stranger, on the anchors. The files without an estimator are parts of one: `_starts`,
`_fair_lloyd`, `_lloyd_within` and `_lloyd_in_chunks` of fair k-means, `_affinity` and `_fair_eigen`
of the spectral methods, `_fairlet_flow` and `_fairlet_tree` of fairlets, and so on. The framework
itself is not here but in `_anchor_clustering.py`.
"""

from fairanchor.cluster._bounded import BoundedFairAssignment
from fairanchor.cluster._fair_kmeans import FairKMeans
from fairanchor.cluster._fairlets import FairletClustering
from fairanchor.cluster._fairness_first import FairnessFirstClustering
from fairanchor.cluster._one_stage import OneStageFairSpectralClustering
from fairanchor.cluster._spectral import FairSpectralClustering
from fairanchor.cluster._variational import VariationalFairClustering

__all__ = [
    "BoundedFairAssignment",
    "FairKMeans",
    "FairSpectralClustering",
    "FairletClustering",
    "FairnessFirstClustering",
    "OneStageFairSpectralClustering",
    "VariationalFairClustering",
]
