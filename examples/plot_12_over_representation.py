"""
No source has more than a fifth of a topic
==========================================

News articles are clustered into topics. Some agencies write mostly about some topics, and a topic
that one agency dominates is that agency's view of it. `FairnessTargets` with ``upper=0.2`` caps the
share of every source in every topic, and sets no other bound.
"""

# %%
# Articles of 12 agencies in 6 topics; three agencies specialise in a topic each.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans

from fairanchor import FairKMeans, FairnessTargets
from fairanchor.metrics import contingency_table, cost_ratio_score

rng = np.random.default_rng(1)
n_articles, n_topics, n_sources = 6_000, 6, 12
topic = rng.integers(0, n_topics, n_articles)
source = rng.integers(0, n_sources, n_articles)
special = (topic < 3) & (rng.uniform(size=n_articles) < 0.25)
source[special] = topic[special]
X = rng.normal(size=(n_topics, 8))[topic] * 2.0 + rng.normal(size=(n_articles, 8))
agency = np.array([f"agency {i + 1:2d}" for i in range(n_sources)])[source]

plain = KMeans(n_topics, n_init=10, random_state=0).fit_predict(X)
capped = FairKMeans(n_topics, fairness=FairnessTargets(upper=0.2), random_state=0)
capped.fit(X, sensitive_features=agency)


def shares(labels):
    table = contingency_table(labels, sensitive_features=agency)
    return table / table.sum(axis=1, keepdims=True)


for name, labels in (("plain k-means", plain), ("at most a fifth", capped.labels_)):
    print(f"{name:16s} largest share of each topic: {shares(labels).max(axis=1).round(3)}")
print(f"cost: {cost_ratio_score(X, capped.labels_, plain):.3f} times that of plain k-means")
print(f"rows above the cap: {capped.worst_violation_:.0f}")

# %%
# The three largest sources of each topic; the dashed line is the cap. Articles above it move to the
# nearest topics that have room for their source.

figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), sharey=True, layout="constrained")
for ax, (name, labels) in zip(
    axes, (("plain k-means", plain), ("FairnessTargets(upper=0.2)", capped.labels_)), strict=True
):
    largest = np.sort(shares(labels), axis=1)[:, ::-1]
    for rank in range(3):
        ax.bar(np.arange(n_topics) + 0.27 * (rank - 1), largest[:, rank], 0.25,
               label=("largest", "second", "third")[rank] + " source")  # fmt: skip
    ax.axhline(0.2, color="black", linestyle="--", linewidth=1)
    ax.set(title=name, xlabel="topic", ylabel="share of the topic" if ax is axes[0] else None)
axes[1].legend()
plt.show()

# %%
# On the command line the cap is ``fairanchor fit articles.csv -k 6 --sensitive agency --max-share
# 0.2``. The problem is that of Ahmadian, Epasto, Kumar and Mahdian ("Clustering without
# over-representation", KDD 2019), who minimise the largest distance to a centre (k-center), with an
# approximation factor and a cap that may be violated by a few rows. Here the cost is that of
# k-means, and the cap holds exactly; the labels are the cheapest for their centres, and there is no
# approximation factor for the centres themselves. A cap below the reciprocal of the number of
# sources, or below the largest source's share of all articles, cannot be met, which an error
# explains:

try:
    FairKMeans(6, fairness=FairnessTargets(upper=0.1)).fit(X, sensitive_features=agency)
except ValueError as error:
    print(str(error)[:150], "...")
