"""
Scaling with the number of rows
===============================

Every step of the framework is a fixed number of passes over the rows. This page measures it, on
the machine that built the documentation. ``docs/performance.md`` has larger tables, and where the
time goes.
"""

# %%
# Normal blobs, ten features, three groups: no two rows are equal, which is the dearest case for
# the anchor graph. A small fit beforehand compiles the kernels.

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans

from fairanchor import AnchorFairClustering
from fairanchor.datasets import make_fair_blobs

SIZES = [12_500, 25_000, 50_000, 100_000, 200_000]


def blobs(n):
    """Rows and groups; the centres are the same for every size."""
    centers = np.random.default_rng(0).uniform(-1.0, 1.0, (5, 10))
    data = make_fair_blobs(n, centers=centers, group_shares=(0.5, 0.3, 0.2), random_state=0)
    return data.data, data.sensitive_features


def seconds(model, X, **groups):
    """Wall time of a fit."""
    started = time.perf_counter()
    model.fit(X, **groups)
    return time.perf_counter() - started


X, group = blobs(6_000)
AnchorFairClustering(5, random_state=0).fit(X, sensitive_features=group)
times = {"AnchorFairClustering": [], "KMeans(n_init=1)": []}
for n in SIZES:
    X, group = blobs(n)
    fair = AnchorFairClustering(5, n_jobs=-1, random_state=0)
    spent = seconds(fair, X, sensitive_features=group)
    times["AnchorFairClustering"].append(spent)
    times["KMeans(n_init=1)"].append(seconds(KMeans(5, n_init=1, random_state=0), X))
    assert fair.worst_violation_ < 1
    print(f"{n:8,d} rows: {spent:5.2f} s, worst cell off by {fair.worst_violation_:.2f} rows")

# %%
# Straight lines of slope 1 in this picture are linear growth.

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for name, spent in times.items():
    axes.loglog(SIZES, spent, "o-", label=name)
guide = times["AnchorFairClustering"][-1] * np.array(SIZES) / SIZES[-1]
axes.loglog(SIZES, guide, "k:", label="linear")
axes.set(xlabel="rows", ylabel="seconds", title="10 features, 5 clusters, 3 groups")
axes.legend()
plt.show()

# %%
# Labels do not depend on the number of threads: the same seed gives the same labels, bit for bit.

one = AnchorFairClustering(5, n_jobs=1, random_state=0).fit(X, sensitive_features=group)
print("same labels with one thread:", bool((one.labels_ == fair.labels_).all()))
