"""Fit one implementation of another project: called by peers.py, in the peers' environment.

    python _peer_fit.py METHOD table.npz labels.npz PARAMETERS

``table.npz`` has ``X`` and ``group``, PARAMETERS is a JSON object. ``labels.npz`` gets the labels,
the CPU seconds of the fit alone and the version. fairanchor cannot be imported here.
"""

import importlib.metadata
import json
import sys
import time

import numpy as np


def vfc(X, group, parameters):
    from holisticai.bias.mitigation import VariationalFairClustering

    model = VariationalFairClustering(**parameters)
    return lambda: model.fit(X, group_a=group == 0, group_b=group == 1).labels_


def constrained(X, group, parameters):
    from k_means_constrained import KMeansConstrained

    model = KMeansConstrained(**parameters)
    return lambda: model.fit(X).labels_


def faiss(X, group, parameters):
    import faiss as library

    # Single precision is what the library takes; by default it fits 256 rows per cluster.
    X = np.ascontiguousarray(X, dtype=np.float32)
    model = library.Kmeans(X.shape[1], **parameters)

    def fit():
        model.train(X)
        return model.index.search(X, 1)[1].ravel()

    return fit


METHODS = {
    "holisticai": (vfc, "holisticai"),
    "k-means-constrained": (constrained, "k-means-constrained"),
    "faiss": (faiss, "faiss-cpu"),
}


def main(method, table_path, labels_path, parameters):
    table = np.load(table_path)
    prepare, package = METHODS[method]
    fit = prepare(table["X"], table["group"], json.loads(parameters))
    start = time.process_time()
    labels = fit()
    seconds = time.process_time() - start
    version = importlib.metadata.version(package)
    np.savez(labels_path, labels=labels, seconds=seconds, version=version)


if __name__ == "__main__":
    main(*sys.argv[1:])
