"""
Deep fair clustering of digits
==============================

`DeepFairClustering` learns codes and memberships with a neural network, and its labels are the
exact fair assignment of the memberships. Here the groups are digits with much and with little ink,
which depends on the digit. It needs PyTorch: ``pip install "fairanchor[deep]"``.
"""

# %%
# A short training; the default is 100 epochs. `FairKMeans` has the same exact counts, from
# distances between pixels.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from fairanchor import DeepFairClustering, FairKMeans
from fairanchor.metrics import clustering_accuracy_score, relative_balance_score

X, digit = load_digits(return_X_y=True)
ink = X.sum(axis=1)
group = np.where(ink > np.median(ink), "bold", "fine")

network = DeepFairClustering(10, max_iter=20, random_state=0).fit(X, sensitive_features=group)
kmeans = FairKMeans(10, random_state=0).fit(X, sensitive_features=group)
labels = {
    "FairKMeans": kmeans.labels_,
    "network": network.labels_,
    "network, groups not used": network.predict(X),
}
for name, found in labels.items():
    accuracy = clustering_accuracy_score(digit, found)
    balance = relative_balance_score(found, sensitive_features=group)
    print(f"{name:25s} accuracy {accuracy:.3f}, relative balance {balance:.3f}")

# %%
# Pixels and codes, each in the plane of its first principal components, coloured by the true digit.
# This is one seed on the table on which the settings were chosen: `the guide
# <../guide/deep.html>`__ has several tables, on some of which the network loses.

figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for ax, (name, values) in zip(axes, (("pixels", X), ("codes", network.transform(X))), strict=True):
    ax.scatter(*PCA(2).fit_transform(values).T, c=digit, s=4, cmap="tab10")
    ax.set(title=name, xticks=[], yticks=[])
plt.show()
