"""Every registered clusterer, for tests that hold for all of them.

A class in ``fairanchor.cluster.__all__`` is tested with its default parameters; `SMALL` has those
that keep slow ones small, `VARIANTS` further ones worth testing.
"""

from importlib.util import find_spec

import pytest

from fairanchor import cluster

SMALL = {
    "ConsensusClustering": {"n_runs": 20},
    "DeepFairClustering": {"hidden_layer_sizes": (16,), "code_size": 4, "max_iter": 8},
}
VARIANTS = {
    "BoundedFairAssignment": [{"objective": "kmedian"}, {"objective": "kcenter"}],
    "ConsensusClustering": [{"method": "average"}],
    "DeepFairClustering": [{"method": "dfc"}],
    "FairletClustering": [
        {"objective": "kmedian"},
        {"objective": "kmedian", "method": "tree"},
    ],
    "FairSpectralClustering": [{"eigen_solver": "deflated"}],
    "VariationalFairClustering": [{"objective": "kmedian"}, {"objective": "ncut"}],
}
#: Clusterers of any number of rows, which have tests of their own.
LARGE_SCALE = {"FairKMeans", "SociallyFairKMeans"}
#: Clusterers of which only the tests of their own are fast.
SLOW = {"DeepFairClustering"}
AVAILABLE = [n for n in cluster.__all__ if n != "DeepFairClustering" or find_spec("torch")]


def clusterers(*, large_scale=True, variants=False, **parameters):
    """Clusterers by name of the class, and of the variant."""
    estimators = {}
    for name in AVAILABLE:
        if name in LARGE_SCALE and not large_scale:
            continue
        for variant in [{}, *(VARIANTS.get(name, []) if variants else [])]:
            key = " ".join([name, *variant.values()])
            estimators[key] = getattr(cluster, name)(**SMALL.get(name, {}), **variant, **parameters)
    return estimators


def marked(estimators):
    """The clusterers as parameters of a test, slow ones marked."""
    return [
        pytest.param(own, id=repr(own), marks=[pytest.mark.slow] * (type(own).__name__ in SLOW))
        for own in estimators
    ]
