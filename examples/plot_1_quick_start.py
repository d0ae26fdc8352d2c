"""
Quick start
===========

Fit, inspect, predict and save a fair clustering.
"""

# %%
# Twenty thousand people with two features. Both features depend on the group, so clusters of the
# features are partly clusters of the groups.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
from sklearn.cluster import KMeans

from fairanchor import FairKMeans, load_model
from fairanchor.datasets import make_zafar
from fairanchor.metrics import balance_score, cost_ratio_score, dataset_balance
from fairanchor.plotting import plot_composition, plot_embedding, principal_plane

data = make_zafar(20_000, variant="original", random_state=0)
X, group = data.data, data.sensitive_features

plain = KMeans(5, n_init=3, random_state=0).fit(X)
fair = FairKMeans(5, random_state=0).fit(X, sensitive_features=group)

# %%
# **Composition.** Every bar is a cluster, and the dashed line is the population. Under plain
# k-means the share of a group differs widely from cluster to cluster.

figure, axes = plt.subplots(1, 2, figsize=(11, 3.6), layout="constrained", sharey=False)
plot_composition(plain.labels_, group, ax=axes[0]).set_title("plain k-means", loc="left")
plot_composition(fair, ax=axes[1]).set_title("FairKMeans", loc="left")
plt.show()

# %%
# The counts of the fair clusters, their targets, and by how many rows the worst cell misses its
# target. The difference is below one, since rows cannot be divided.

print("counts, clusters x groups\n", fair.counts_)
print("targets\n", fair.targets_.round(2))
print("worst violation:", round(fair.worst_violation_, 3), "rows")

# %%
# *Balance* is the size of the smallest group over that of the largest, in the worst cluster. No
# clustering of these rows can exceed the balance of the population.

for name, labels in {"plain": plain.labels_, "fair": fair.labels_}.items():
    print(f"{name:5s} balance {balance_score(labels, sensitive_features=group):.4f}")
print(f"bound         {dataset_balance(group):.4f}")

# %%
# **Cost.** Fair clusters are less compact. By how much depends on the data.

ratio = cost_ratio_score(X, fair.labels_, plain.labels_)
print(f"cost of the fair clusters: {ratio:.2f} times that of plain k-means")
figure, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
plane = principal_plane(X)
plot_embedding(X, plain.labels_, plane=plane, ax=axes[0]).set_title("plain k-means")
plot_embedding(X, fair, plane=plane, ax=axes[1]).set_title("FairKMeans")
plt.show()

# %%
# **New rows.** A fitted model is a few small arrays. It labels rows one by one, and its file holds
# numbers and text only, never code.

new = make_zafar(5_000, variant="original", random_state=1)
with tempfile.TemporaryDirectory() as folder:
    fair.save(Path(folder, "people.npz"))
    kept = load_model(Path(folder, "people.npz"))
labels = kept.predict(new.data, sensitive_features=new.sensitive_features)
balance = balance_score(labels, sensitive_features=new.sensitive_features)
print(f"balance of 5,000 new rows: {balance:.3f}")
