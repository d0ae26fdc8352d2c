"""
The price of fairness
=====================

Exact proportions are the extreme case. A *tolerance* δ lets the share of a group in a cluster be
anywhere in [(1 − δ)π, π/(1 − δ)], where π is its share of the data. What does each step cost?
"""

# %%
# `fairness_path` runs from exact proportions (0) to no constraint (1).

import matplotlib.pyplot as plt
import pandas as pd

from fairanchor import clusters_path, fairness_path, suggest_tolerance
from fairanchor.datasets import make_fair_blobs
from fairanchor.plotting import plot_composition, plot_fairness_path

data = make_fair_blobs(
    6_000, centers=4, group_shares=(0.6, 0.4), skew=0.4, cluster_std=3.0, random_state=0
)
X, group = data.data, data.sensitive_features

path = fairness_path(X, group, n_clusters=4, n_init=3, random_state=0)
table = pd.DataFrame(path.table)
print(table[["tolerance", "cost", "relative_balance", "violation"]].round(3).to_string(index=False))

# %%
# Each point is a clustering: fairer ones are to the right, less compact ones at the top.

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
plot_fairness_path(path, ax=axes)
plt.show()

# %%
# `suggest_tolerance` returns the smallest tolerance for a given extra cost. Whether a tolerance is
# acceptable depends on what the clusters are used for.

for extra in (0.01, 0.05, 0.2):
    tolerance = suggest_tolerance(path, extra_cost=extra)
    print(f"at most {extra:.0%} more cost than without a constraint: tolerance {tolerance:g}")

# %%
# The two ends and a compromise, cluster by cluster.

shown = [0, 3, len(path.models) - 1]
figure, axes = plt.subplots(1, 3, figsize=(13, 3), layout="constrained")
for ax, number in zip(axes, shown, strict=True):
    plot_composition(path.models[number], ax=ax)
    ax.set_title(f"tolerance {path.models[number].tolerance:g}", loc="left")
plt.show()

# %%
# The number of clusters matters as well. Many clusters make small cells, and a share of a handful
# of rows means little: compare ``smallest_cell`` with the cost.

counts = pd.DataFrame(clusters_path(X, group, range(2, 8), n_init=3, random_state=0).table)
columns = ["n_clusters", "cost", "cost_ratio", "relative_balance", "smallest_cell"]
print(counts[columns].round(3).to_string(index=False))
