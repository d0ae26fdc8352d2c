"""The five fair clustering methods of the paper, and what they need when run alone."""

# Keys of the library's clusterers, and the paper's names.
METHODS = {"spfc": "SpFC", "vfc": "VFC", "fmsc": "FMSC", "fairlets": "TFC", "ffc": "FFC"}
# Alone, the first form of fair spectral clustering is a case of its own: all pairs of rows and a
# dense eigenproblem, where the library's default is sparse.
DENSE = "spfc_dense"
TITLES = METHODS | {DENSE: "SpFC, dense"}

# Peak bytes per pair of rows, measured at 4,000 and 10,000 rows (672 MB and 4.2 GB).
DENSE_BYTES_PER_PAIR = 42
# One distance for every pair of a row of the smallest group and one of another group.
FAIRLET_BYTES_PER_PAIR = 8


def alone(method, n_clusters, random_state):
    """The estimator that clusters all rows by itself."""
    from fairanchor.clusterers import FairSpectralClustering
    from fairanchor.clusterers._registry import CLUSTERERS

    if method == DENSE:
        estimator = FairSpectralClustering(affinity="rbf", eigen_solver="dense")
    else:
        estimator = CLUSTERERS[method]()
    return estimator.set_params(n_clusters=n_clusters, random_state=random_state)


def memory_estimate(method, group_sizes):
    """Bytes that a method needs alone, where it grows with pairs of rows; otherwise 0.

    Parameters
    ----------
    method : str
    group_sizes : sequence of int

    Returns
    -------
    n_bytes : int
    """
    n_rows, smallest = sum(group_sizes), min(group_sizes)
    if method == DENSE:
        return DENSE_BYTES_PER_PAIR * n_rows**2
    if method == "fairlets":
        return FAIRLET_BYTES_PER_PAIR * smallest * (n_rows - smallest)
    return 0
