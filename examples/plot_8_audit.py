"""
Audit of labels made by another tool
====================================

To find out whether existing segments are fair, labels and groups are enough: nothing has to be
fitted.
"""

# %%
# Segments from scikit-learn's Gaussian mixture, with names instead of numbers.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.mixture import GaussianMixture

from fairanchor import fair_assign
from fairanchor.datasets import make_fair_blobs
from fairanchor.metrics import (
    balance_score,
    contingency_table,
    cost_ratio_score,
    dataset_balance,
    mnce_score,
    relative_balance_score,
    worst_violation,
)
from fairanchor.plotting import plot_balance, plot_composition
from fairanchor.report import summarise_labels, write_report

data = make_fair_blobs(
    5_000, centers=3, group_shares=(0.55, 0.3, 0.15), skew=0.5, cluster_std=2.0, random_state=1
)
X = data.data
group = np.array(["north", "east", "south"])[data.sensitive_features]
mixture = GaussianMixture(3, random_state=0).fit(X)
segment = np.array(["gold", "silver", "blue"])[mixture.predict(X)]

# %%
# **The table**, and three numbers with different meanings: *balance* is the smallest group over the
# largest in the worst segment (compare it with its bound, which is not 1), *relative balance*
# compares shares with those of all rows (1 is proportional), *MNCE* is an entropy (1 is best).

print(pd.crosstab(segment, group))
print(
    f"balance          {balance_score(segment, sensitive_features=group):.3f}"
    f" (bound {dataset_balance(group):.3f})"
)
print(f"relative balance {relative_balance_score(segment, sensitive_features=group):.3f}")
print(f"MNCE             {mnce_score(segment, sensitive_features=group):.3f}")

# %%
# **In rows**: by how many rows the worst cell misses its proportion, exactly and with a tolerance
# of 20 %.

for tolerance in (0.0, 0.2):
    rows = worst_violation(segment, sensitive_features=group, targets=tolerance)
    print(f"tolerance {tolerance:.1f}: the worst cell is {rows:,.0f} rows off")

figure, axes = plt.subplots(1, 2, figsize=(11, 2.8), layout="constrained")
plot_composition(segment, group, ax=axes[0])
plot_balance(segment, group, ax=axes[1])
plt.show()

# %%
# **Repair.** `fair_assign` gives every row a segment of the same mixture: among all labels whose
# segments mirror the groups, those with the largest posterior probability of all rows together.

costs = -np.log(np.maximum(mixture.predict_proba(X), 1e-300))
fair = fair_assign(costs, sensitive_features=group)
print(contingency_table(fair.labels, sensitive_features=group).astype(int))
print(f"moved: {np.mean(fair.labels != mixture.predict(X)):.1%} of the rows")
print(f"cost: {cost_ratio_score(X, fair.labels, segment):.2f} times that of the given segments")

# %%
# **A report** of the audit; on the command line it is
# ``fairanchor audit labels.csv --sensitive group --report audit.html``.

run = summarise_labels(segment, sensitive_features=group, title="Segments of spring")
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder, "audit.html")
    write_report(file, run)
    print(f"{file.name}: {file.stat().st_size / 1024:.0f} kB")
