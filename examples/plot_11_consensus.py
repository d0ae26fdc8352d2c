"""
Consensus: clusters that many runs have in common
=================================================

One run of k-means depends on its start. A consensus combines many runs, each on a random half of
the rows: rows that the runs keep putting together form a cluster, of any shape. It also shows how
clear the borders are. The groups have no part in it; the framework then makes the counts exact.
"""

# %%
# Two rings. Three seeds of fair k-means cut them in different directions; three seeds of the
# consensus agree. Both have exact counts, for which a few rows change the ring.

from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_circles
from sklearn.metrics import adjusted_rand_score

from fairanchor import AnchorFairClustering, FairKMeans

rng = np.random.default_rng(0)
X, ring = make_circles(3_000, noise=0.05, factor=0.5, random_state=0)
group = rng.choice(["a", "b", "c"], len(X), p=[0.5, 0.3, 0.2])

models = {
    "FairKMeans": lambda seed: FairKMeans(2, random_state=seed),
    "consensus": lambda seed: AnchorFairClustering(2, clusterer="consensus", random_state=seed),
}
figure, axes = plt.subplots(2, 3, figsize=(10, 6.4), layout="constrained")
for row, (name, make) in zip(axes, models.items(), strict=True):
    fitted = [make(seed).fit(X, sensitive_features=group) for seed in range(3)]
    for seed, (ax, model) in enumerate(zip(row, fitted, strict=True)):
        ax.scatter(*X.T, c=model.labels_, s=3, cmap="tab10", vmax=9)
        ax.set(title=f"{name}, seed {seed}", xticks=[], yticks=[], aspect="equal")
    pairs = combinations([model.labels_ for model in fitted], 2)
    same = min(adjusted_rand_score(*pair) for pair in pairs)
    worst = max(model.worst_violation_ for model in fitted)
    print(f"{name:12s} least agreement of two seeds {same:.2f}; worst violation {worst:.2f} rows")
plt.show()

# %%
# **Stability**: the share of a row's companions in the runs that are in its cluster. Two of these
# four blobs overlap, and the anchors between them are unstable. ``cluster_stability_`` is the mean
# of each cluster; the report of the model has a table of it.

centers = np.array([[0.0, 0.0], [2.6, 0.0], [0.0, 7.0], [7.0, 7.0]])
X = centers[rng.integers(0, 4, 3_000)] + rng.normal(size=(3_000, 2))
model = AnchorFairClustering(4, clusterer="consensus", random_state=0)
model.fit(X, sensitive_features=group)
stability = model.clusterer_
print("stability of the clusters:", stability.cluster_stability_.round(3))

figure, ax = plt.subplots(figsize=(6, 4.2), layout="constrained")
points = ax.scatter(
    *model.anchors_.T, c=stability.row_stability_, s=14, cmap="viridis", vmin=0.5, vmax=1.0
)
for l, mean in enumerate(model.cluster_centers_):
    ax.annotate(f"{stability.cluster_stability_[l]:.2f}", mean, weight="bold", ha="center")
figure.colorbar(points, label="stability of the anchor")
ax.set(xticks=[], yticks=[], aspect="equal")
plt.show()
