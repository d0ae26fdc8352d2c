"""
Every clusterer on the same data
================================

The framework takes any clusterer, which labels only the anchors. The labels of all rows have exact
counts in every case; the clusterers differ in the boundaries between clusters and in the cost.
"""

# %%
# Three groups of unequal size and four blobs, each of which attracts one of the groups.

import time

import matplotlib.pyplot as plt
from sklearn.cluster import AgglomerativeClustering, KMeans

from fairanchor import AnchorFairClustering, FairKMeans
from fairanchor.datasets import make_fair_blobs
from fairanchor.metrics import balance_score, clustering_cost, dataset_balance
from fairanchor.plotting import plot_comparison, plot_embedding, principal_plane

data = make_fair_blobs(
    8_000, centers=4, group_shares=(0.5, 0.3, 0.2), skew=0.2, cluster_std=3.0, random_state=3
)
X, group = data.data, data.sensitive_features

NAMES = ["fair_kmeans", "spfc", "vfc", "fmsc", "fairlets", "ffc", "bounded"]
models = {"plain k-means": KMeans(4, n_init=10, random_state=0)}
models["FairKMeans"] = FairKMeans(4, random_state=0)
for name in NAMES:
    models[f"anchors + {name}"] = AnchorFairClustering(4, clusterer=name, random_state=0)

# %%
# An estimator that takes no groups works as well: here Ward's method, which could not cluster all
# rows of a large table, but can cluster the anchors.

models["anchors + Ward"] = AnchorFairClustering(
    4, clusterer=AgglomerativeClustering(4), random_state=0
)

results, labels = [], {}
for name, model in models.items():
    groups = {} if name == "plain k-means" else {"sensitive_features": group}
    few = {parameter: values[:500] for parameter, values in groups.items()}
    model.fit(X[:500], **few)  # compiles the kernels, which is not part of the time
    started = time.perf_counter()
    labels[name] = model.fit(X, **groups).labels_
    results.append(
        {
            "name": name,
            "seconds": time.perf_counter() - started,
            "cost": clustering_cost(X, labels[name]),
            "balance": balance_score(labels[name], sensitive_features=group),
        }
    )

# %%
# All fair methods reach the bound, up to rounding to whole rows. `FairKMeans` minimises the k-means
# cost on all rows, so it has the lowest cost of the fair methods; a spectral method on the anchors
# minimises something else.

cheapest = results[0]["cost"]
for result in results:
    print(
        f"{result['name']:22s} balance {result['balance']:.3f}"
        f"   cost {result['cost'] / cheapest:5.2f}   {result['seconds']:6.2f} s"
    )
print(f"{'bound':22s} balance {dataset_balance(group):.3f}")

figure, axes = plt.subplots(figsize=(9, 4.4), layout="constrained")
plot_comparison(results, bound=dataset_balance(group), ax=axes)
plt.show()

# %%
# The labels of four of them.

plane = principal_plane(X)
shown = ["plain k-means", "FairKMeans", "anchors + spfc", "anchors + Ward"]
figure, axes = plt.subplots(2, 2, figsize=(10, 7.5), layout="constrained")
for ax, name in zip(axes.flat, shown, strict=True):
    plot_embedding(X, labels[name], plane=plane, ax=ax).set_title(name)
plt.show()
