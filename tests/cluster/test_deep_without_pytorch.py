"""PyTorch is optional: `DeepFairClustering` can be constructed without it, and `fit` names it."""

import sys

import numpy as np
import pytest

from fairanchor import DeepFairClustering


def test_fit_without_pytorch_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "fairanchor.cluster._deep_training", raising=False)
    monkeypatch.delattr("fairanchor.cluster._deep_training", raising=False)
    with pytest.raises(ImportError, match=r'PyTorch.*pip install "fairanchor\[deep\]"'):
        DeepFairClustering(2).fit(np.eye(4), sensitive_features=[0, 1, 0, 1])
