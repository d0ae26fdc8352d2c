"""
Soft and hard balance: why argmax is not fair
=============================================

The reconstruction graph of the paper gives every row *soft labels*: shares of all clusters that sum
to 1. Their sums over the rows have the required composition. The cluster with the largest
share of each row does not inherit it.
"""

# %%
# Two models that differ in the last step only.

import matplotlib.pyplot as plt
import numpy as np

from fairanchor import AnchorFairClustering, ReconstructionGraph
from fairanchor.datasets import make_zafar
from fairanchor.plotting import plot_composition

data = make_zafar(20_000, variant="original", random_state=0)
X, group = data.data, data.sensitive_features

setting = {
    "n_clusters": 4,
    "n_anchors": 40,
    "graph": ReconstructionGraph(tol=1e-6),
    "random_state": 0,
}
argmax = AnchorFairClustering(assignment="argmax", **setting)
argmax.fit(X, sensitive_features=group)
balanced = AnchorFairClustering(assignment="balanced", **setting)
balanced.fit(X, sensitive_features=group)

# %%
# **Soft labels meet the targets**: their sums over the rows of each group are the targets, up to
# the tolerance of the solver (here a millionth of a group).

soft = argmax.predict_proba(X, sensitive_features=group)
mass = np.column_stack([soft[group == name].sum(axis=0) for name in argmax.groups_])
print("soft mass, clusters x groups\n", mass.round(2))
print("targets\n", argmax.targets_.round(2))
print(f"largest difference: {np.abs(mass - argmax.targets_).max():.1e} rows")

# %%
# **Their argmax does not.** A row with shares 0.51 and 0.49 counts as a whole row of the first
# cluster, and one group has more such rows than the other.

for name, model in {"argmax": argmax, "balanced": balanced}.items():
    print(
        f"{name:8s} balance {model.balance_:.3f}, worst cell off by {model.worst_violation_:,.1f}"
    )
print(f"soft     balance {(mass.min(axis=1) / mass.max(axis=1)).min():.3f}")

# %%
# ``assignment="balanced"`` solves a transportation problem instead: among all labels whose counts
# are the targets, rounded up or down, it finds those with the largest sum of soft labels. Its dual
# variables are stored, so that `predict` gives the same answer for the same row.

figure, axes = plt.subplots(1, 2, figsize=(11, 3.2), layout="constrained")
plot_composition(argmax, ax=axes[0]).set_title("argmax of the soft labels", loc="left")
plot_composition(balanced, ax=axes[1]).set_title("balanced assignment", loc="left")
plt.show()

# %%
# The largest share of each row, and the share of the cluster that the balanced assignment chose:
# for most rows they are the same.

largest = soft.max(axis=1)
own = soft[np.arange(len(soft)), balanced.labels_]
figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
axes.hist([largest, own], bins=25, range=(0, 1), label=["largest share", "share of own cluster"])
axes.set(xlabel="share of a cluster", ylabel="rows")
axes.legend()
plt.show()
print(f"rows whose cluster is not their largest share: {(own < largest).mean():.1%}")
