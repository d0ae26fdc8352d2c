"""
Inside: the anchor graph and its few prices
===========================================

The constraint of the paper couples all rows and all anchors. Its dual has one unknown per cluster
and group. This page looks at both ways to solve it.
"""

# %%
# ADMM with Frank-Wolfe steps, as in the paper, and the exact dual method, on the same anchors and
# the same targets.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from fairanchor import AnchorFairClustering
from fairanchor.datasets import make_zafar
from fairanchor.plotting import plot_anchors

data = make_zafar(4_000, variant="original", random_state=0)
X, group = data.data, data.sensitive_features

setting = {"n_clusters": 3, "fairness": "anchors", "refine": 0, "random_state": 0}
newton = AnchorFairClustering(solver="newton", tol=1e-8, **setting)
newton.fit(X, sensitive_features=group)
admm = AnchorFairClustering(solver="admm", assignment="argmax", max_iter=60, **setting)
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
# The solution is a table of prices: what a row of a group pays for weight on the anchors of a
# cluster. With the anchors they give the weights of any row, seen or new.

print("multipliers, clusters x groups\n", newton.multipliers_.round(3))
Z = newton.transform(X, sensitive_features=group)
print(
    "weights:",
    Z.shape,
    f"{Z.nnz / Z.shape[0]:.1f} anchors per row,",
    "rows sum to",
    np.unique(Z.sum(axis=1).round(9)),
)

# %%
# The anchors, with areas like the rows they stand for.

figure, axes = plt.subplots(figsize=(7, 4.4), layout="constrained")
plot_anchors(newton, X=X, ax=axes)
plt.show()
