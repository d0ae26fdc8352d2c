"""
Inside: the anchor graphs
=========================

The local graph connects each row to the anchors around it. The reconstruction graph of the paper
writes each row as a convex combination of the anchors; its constraint couples all rows and all
anchors, but its dual has one unknown per cluster and group.
"""

# %%
# **The local graph.** The weights of a row on the anchors are sparse: five neighbours, unless the
# prices of the row's group change them. Anchors are drawn with areas like the rows that they
# represent.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from fairanchor import FDAS, AnchorFairClustering, ReconstructionGraph
from fairanchor.datasets import make_zafar
from fairanchor.plotting import plot_anchors

data = make_zafar(4_000, variant="original", random_state=0)
X, group = data.data, data.sensitive_features

local = AnchorFairClustering(3, n_anchors=100, random_state=0).fit(X, sensitive_features=group)
Z = local.transform(X, sensitive_features=group)
print(
    Z.shape,
    f"{Z.nnz / Z.shape[0]:.1f} anchors per row, rows sum to",
    np.unique(Z.sum(axis=1).round(9)),
)
figure, axes = plt.subplots(figsize=(7, 4.4), layout="constrained")
plot_anchors(local, X=X, ax=axes)
plt.show()

# %%
# **The reconstruction graph**, solved by ADMM with Frank-Wolfe steps as in the paper and by the
# exact dual method, on the same anchors and the same targets.

setting = {"n_clusters": 3, "anchors": FDAS(), "n_anchors": 40, "fairness": "anchors"}
newton = AnchorFairClustering(graph=ReconstructionGraph(tol=1e-8), random_state=0, **setting)
newton.fit(X, sensitive_features=group)
admm = AnchorFairClustering(
    graph=ReconstructionGraph(solver="admm", max_iter=60),
    assignment="argmax",
    random_state=0,
    **setting,
)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always", ConvergenceWarning)
    admm.fit(X, sensitive_features=group)
for warning in caught:
    print("ADMM warns:", warning.message)

# %%
# Error of the worst cell, in rows, after each sweep over all rows.

figure, axes = plt.subplots(figsize=(7, 3.8), layout="constrained")
for name, model in {"Newton on the dual": newton, "ADMM": admm}.items():
    sweeps = [record["sweep"] for record in model.history_]
    errors = [max(record["mass_error"], 1e-12) for record in model.history_]
    axes.semilogy(sweeps, errors, "o-", markersize=3, label=name)
axes.set(xlabel="sweeps over the rows", ylabel="error of the worst cell, rows")
axes.legend()
plt.show()

# %%
# The solution is a table of dual variables: what a row of a group pays for weight on the anchors of
# a cluster. With the anchors they give the weights of any row, seen or new.

print("multipliers, clusters x groups\n", newton.multipliers_.round(3))
