"""
Shapes: spectral clustering at scale, with exact composition
============================================================

Clusters need not be compact. Spectral clustering finds two moons, but its time and memory grow
quickly with the rows, and it ignores groups. Inside the framework it clusters 600 anchors, and the
labels of all rows have an exact composition.
"""

# %%
# Two moons of 6,000 rows, and two groups: 54 % of one moon and 46 % of the other are in group A.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import SpectralClustering
from sklearn.datasets import make_moons
from sklearn.metrics import adjusted_rand_score

from fairanchor import AnchorFairClustering, FairKMeans
from fairanchor.metrics import relative_balance_score
from fairanchor.plotting import plot_composition

X, moon = make_moons(6_000, noise=0.06, random_state=0)
rng = np.random.default_rng(0)
group = np.where(rng.random(len(X)) < np.where(moon == 0, 0.54, 0.46), "A", "B")

# %%
# Spectral clustering of all rows, the same clusterer inside the framework, the framework's default
# clusterer (fair spectral clustering), and fair k-means, whose clusters are compact.

spectral = SpectralClustering(2, affinity="nearest_neighbors", n_neighbors=20, random_state=0)
models = {
    "spectral clustering, alone": spectral,
    "spectral clustering, inside": AnchorFairClustering(2, clusterer=spectral, random_state=0),
    "fair spectral clustering, inside": AnchorFairClustering(2, random_state=0),
    "FairKMeans": FairKMeans(2, random_state=0),
}
labels = {}
for name, model in models.items():
    groups = {} if model is spectral else {"sensitive_features": group}
    labels[name] = model.fit(X, **groups).labels_
    agreement = adjusted_rand_score(moon, labels[name])
    relative = relative_balance_score(labels[name], sensitive_features=group)
    print(f"{name:33s} agreement with the moons {agreement:.2f}, relative balance {relative:.4f}")

# %%
# The framework keeps the moons and moves as few rows as the composition requires. Fair spectral
# clustering excludes partitions that are correlated with the groups, so it finds other clusters as
# soon as the moons differ in their composition.

COLORS = np.array(["#0072B2", "#E69F00"])
figure, axes = plt.subplots(2, 2, figsize=(11, 6.8), layout="constrained")
for ax, (name, found) in zip(axes.flat, labels.items(), strict=True):
    ax.scatter(*X.T, c=COLORS[found], s=3, linewidths=0)
    ax.set_title(name, loc="left")
plt.show()

# %%
# The anchors are means of the rows around them, separately for each group. The clusterer labels
# only the anchors. The cost of a row in a cluster is its squared distance to the cluster's nearest
# anchor, and the labels are the cheapest ones with exact counts.

inside = models["spectral clustering, inside"]
print(len(inside.anchors_), "anchors; the worst cell is", end=" ")
print(f"{inside.worst_violation_:.2f} rows from its target")
figure, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
ax.scatter(
    *inside.anchors_.T, c=COLORS[inside.anchor_labels_], s=2 * inside.anchor_masses_, alpha=0.7
)
ax.set_title("the anchors and their clusters", loc="left")
plt.show()

# %%
# The composition of the clusters.

figure, axes = plt.subplots(1, 2, figsize=(11, 2.6), layout="constrained")
for ax, name in zip(axes, list(labels)[:2], strict=True):
    plot_composition(labels[name], group, ax=ax).set_title(name, loc="left")
plt.show()

# %%
# How many rows have to move depends on the groups: hardly any if both moons have the same
# composition, more and more as each moon belongs to one group.

for share in (0.5, 0.54, 0.75):
    groups = np.where(rng.random(len(X)) < np.where(moon == 0, share, 1 - share), "A", "B")
    model = AnchorFairClustering(2, clusterer=spectral, random_state=0)
    model.fit(X, sensitive_features=groups)
    nearest = ((X[:, None] - model.anchors_) ** 2).sum(axis=2).argmin(axis=1)
    moved = np.mean(model.labels_ != model.anchor_labels_[nearest])
    agreement = adjusted_rand_score(moon, model.labels_)
    print(f"{share:.0%} and {1 - share:.0%}: {moved:.1%} moved, agreement {agreement:.2f}")
