"""Kernels are plain Python with a decorator: without it they give the same labels."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

SCRIPT = Path(__file__).with_name("interpreted_fits.py")


def labels_with(folder, **environment):
    """Labels of all fits, in a process of its own."""
    path = folder / "labels.npz"
    environment = {"OMP_NUM_THREADS": "1", **os.environ, **environment}
    subprocess.run([sys.executable, SCRIPT, path], env=environment, check=True)
    with np.load(path) as labels:
        return dict(labels)


@pytest.mark.slow
def test_interpreted_kernels_give_the_labels_of_compiled_ones(tmp_path):
    compiled = labels_with(tmp_path, NUMBA_DISABLE_JIT="0")
    interpreted = labels_with(tmp_path, NUMBA_DISABLE_JIT="1")
    assert compiled.keys() == interpreted.keys()
    for name, labels in compiled.items():
        assert_array_equal(interpreted[name], labels, err_msg=name)
