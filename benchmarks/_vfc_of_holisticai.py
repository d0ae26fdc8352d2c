"""Run holisticai's variational fair clustering: called by peers.py, in holisticai's environment.

    python _vfc_of_holisticai.py table.npz labels.npz PARAMETERS

``table.npz`` holds ``X`` and ``second`` (whether a row is of the second group), PARAMETERS is a
JSON object for the constructor. ``labels.npz`` gets the labels, the seconds of ``fit`` alone and
the version. fairanchor cannot be imported here.
"""

import importlib.metadata
import json
import sys
import time

import numpy as np
from holisticai.bias.mitigation import VariationalFairClustering


def main(table_path, labels_path, parameters):
    table = np.load(table_path)
    X, second = table["X"], table["second"]
    model = VariationalFairClustering(**json.loads(parameters))
    start = time.perf_counter()
    model.fit(X, group_a=~second, group_b=second)
    seconds = time.perf_counter() - start
    version = importlib.metadata.version("holisticai")
    np.savez(labels_path, labels=model.labels_, seconds=seconds, version=version)


if __name__ == "__main__":
    main(*sys.argv[1:])
