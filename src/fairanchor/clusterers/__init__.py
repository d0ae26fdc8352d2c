"""Fair clustering methods, one per file, each an estimator that works alone or on anchors."""

from fairanchor.clusterers._fair_kmeans import FairKMeans
from fairanchor.clusterers._spectral import FairSpectralClustering

__all__ = ["FairKMeans", "FairSpectralClustering"]
