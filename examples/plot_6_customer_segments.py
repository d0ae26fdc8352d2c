"""
Customer segments of a bank, from beginning to end
==================================================

A bank wants two segments of its customers. Marketing by segment must not become marketing by
marital status. This example covers the table, the segments, their profiles, the rows that fairness
moves, its cost, new customers, and a report.
"""

# %%
# **The table.** The public bank marketing contacts: 41,108 phone calls of a Portuguese bank, ten
# numeric columns, marital status as the sensitive one. If the file is not available, the example
# generates customers of the same shape and prints that it did.

import os
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.preprocessing import StandardScaler

from fairanchor import FairKMeans, fairness_path
from fairanchor.datasets import fetch_bank_marketing, load_bank_marketing, make_fair_blobs
from fairanchor.metrics import cost_ratio_score, relative_balance_score
from fairanchor.plotting import plot_composition, plot_fairness_path, plot_profiles
from fairanchor.report import summarise_run, write_report


def bank_or_generated():
    """The public table, from FAIRANCHOR_DATA or scikit-learn's folder, or generated customers."""
    try:
        if "FAIRANCHOR_DATA" in os.environ:
            return load_bank_marketing(os.environ["FAIRANCHOR_DATA"]), "the public table"
        return fetch_bank_marketing(download_if_missing=False), "the public table"
    except OSError as error:
        print("The public table is not here:", type(error).__name__)
        return generated_customers(), "GENERATED customers: no figure below is about a real bank"


def generated_customers():
    """As many rows, columns and groups as the public table has, and nothing else of it."""
    shares = {"married": 0.606, "single": 0.282, "divorced": 0.112}
    generated = make_fair_blobs(
        41_108,
        n_features=10,
        centers=2,
        group_shares=shares,
        skew=0.1,
        cluster_std=5.0,
        random_state=0,
    )
    return generated | {"feature_names": [f"column {j}" for j in range(10)]}


bank, origin = bank_or_generated()
print("Data:", origin)
status, names = np.asarray(bank["sensitive_features"]), list(bank["feature_names"])
X = StandardScaler().fit_transform(bank["data"])
for name, count in zip(*np.unique(status, return_counts=True), strict=True):
    print(f"{name:9s} {count:7,d} rows, {count / len(status):.1%}")

# %%
# **The segments, with and without fairness.** Distances need features in comparable units, so the
# columns are standardised; the estimators do not rescale them.

plain = KMeans(2, n_init=10, random_state=0).fit(X).labels_
fair = FairKMeans(2, random_state=0).fit(X, sensitive_features=status)

figure, axes = plt.subplots(2, 1, figsize=(9, 4.4), layout="constrained")
plot_composition(plain, status, ax=axes[0]).set_title("plain k-means", loc="left")
plot_composition(fair, ax=axes[1]).set_title("fair segments", loc="left")
plt.show()

for name, labels in {"plain": plain, "fair": fair.labels_}.items():
    relative = relative_balance_score(labels, sensitive_features=status)
    print(f"{name:5s} relative balance {relative:.4f} (1 = every segment mirrors all customers)")
print(f"the fair segments cost {cost_ratio_score(X, fair.labels_, plain):.3f} times as much")

# %%
# **Profiles.** The columns in which the segments differ most, in standard deviations.

figure, axes = plt.subplots(figsize=(10, 3.2), layout="constrained")
plot_profiles(X, fair, feature_names=names, ax=axes)
plt.show()

# %%
# **Who is moved?** The customers whose segment is not that of the nearest centre. They should be
# few and near the boundary.

distances = ((X[:, None, :] - fair.cluster_centers_) ** 2).sum(axis=2)
moved = distances.argmin(axis=1) != fair.labels_
for name in fair.groups_:
    print(f"{name:9s} {moved[status == name].mean():6.2%} are not with the nearest centre")

# %%
# **A tolerance.** The curve shows what a tolerance saves, on every third row.

path = fairness_path(X[::3], status[::3], n_clusters=2, n_init=3, random_state=0)
figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
plot_fairness_path(path, ax=axes)
plt.show()

# %%
# **New customers.** Fit on one half, label the other. New rows are labelled one by one, by the
# prices of their group; their composition is not guaranteed, so it is measured.

half = len(X) // 2
order = np.random.default_rng(0).permutation(len(X))
seen, new = order[:half], order[half:]
model = FairKMeans(2, random_state=0).fit(X[seen], sensitive_features=status[seen])
labels = model.predict(X[new], sensitive_features=status[new])
print(f"new rows: {relative_balance_score(labels, sensitive_features=status[new]):.3f}")

# %%
# **A report**: one HTML file for readers who do not use Python.

run = summarise_run(
    fair,
    X,
    sensitive_features=status,
    feature_names=names,
    plain_labels=plain,
    title="Two customer segments",
)
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder, "segments.html")
    write_report(file, run)
    print(f"{file.name}: {file.stat().st_size / 1024:.0f} kB")
