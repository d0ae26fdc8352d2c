"""
Scaling with the number of rows
===============================

Both estimators make a fixed number of passes over the rows in each step. This example measures
their time on the machine that built the documentation.
"""

# %%
# Normal blobs, ten features, three groups, no equal rows. A small fit beforehand compiles the
# kernels.

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans

from fairanchor import AnchorFairClustering, FairKMeans
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


models = {
    "FairKMeans": FairKMeans(5, n_jobs=-1, random_state=0),
    "AnchorFairClustering": AnchorFairClustering(5, n_jobs=-1, random_state=0),
}
X, group = blobs(6_000)
for model in models.values():
    model.fit(X, sensitive_features=group)
times = {name: [] for name in [*models, "KMeans(n_init=1)"]}
for n in SIZES:
    X, group = blobs(n)
    for name, model in models.items():
        times[name].append(seconds(model, X, sensitive_features=group))
        assert model.worst_violation_ < 1
    times["KMeans(n_init=1)"].append(seconds(KMeans(5, n_init=1, random_state=0), X))
    print(f"{n:8,d} rows:", ", ".join(f"{name} {spent[-1]:.2f} s" for name, spent in times.items()))

# %%
# Straight lines of slope 1 are linear growth.

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for name, spent in times.items():
    axes.loglog(SIZES, spent, "o-", label=name)
guide = times["FairKMeans"][-1] * np.array(SIZES) / SIZES[-1]
axes.loglog(SIZES, guide, "k:", label="linear")
axes.set(xlabel="rows", ylabel="seconds", title="10 features, 5 clusters, 3 groups")
axes.legend()
plt.show()

# %%
# Labels do not depend on the number of threads: the same seed gives the same labels, bit for bit.

for name, model in models.items():
    labels = model.labels_
    one = model.set_params(n_jobs=1).fit(X, sensitive_features=group)
    print(f"{name}: same labels with one thread:", bool((one.labels_ == labels).all()))
