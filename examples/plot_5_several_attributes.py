"""
Several sensitive attributes
============================

With sex *and* age band, clusters can mirror each of the two, or every combination of them. The
second requires more, and some combinations are small.
"""

# %%
# Income depends on sex, years of work depend on age, and the third feature separates young women
# from everybody else.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.cluster import KMeans

from fairanchor import FairKMeans
from fairanchor.metrics import (
    attribute_relative_balance_scores,
    cost_ratio_score,
    relative_balance_score,
)
from fairanchor.plotting import plot_composition

rng = np.random.default_rng(0)
n = 4_000
people = pd.DataFrame(
    {
        "sex": rng.choice(["f", "m"], n, p=[0.45, 0.55]),
        "age": rng.choice(["18-34", "35-54", "55+"], n, p=[0.35, 0.45, 0.2]),
    }
)
X = rng.normal(size=(n, 3))
X[:, 0] += 1.5 * (people["sex"] == "m")
X[:, 1] += 1.0 * (people["age"] == "55+") - 1.0 * (people["age"] == "18-34")
X[:, 2] += 2.5 * ((people["sex"] == "f") & (people["age"] == "18-34"))

plain = KMeans(4, n_init=10, random_state=0).fit(X).labels_
separate = FairKMeans(4, attributes="separate", random_state=0)
separate.fit(X, sensitive_features=people)
crossed = FairKMeans(4, attributes="intersection", random_state=0)
crossed.fit(X, sensitive_features=people)

# %%
# Relative balance is the worst ratio of a group's share of a cluster to its share of all rows: 1
# is proportional. With ``"separate"`` each column is within a row of its proportions; their
# combinations need not be.

both = people.agg(" ".join, axis=1)
labelings = {"plain": plain, "separate": separate.labels_, "crossed": crossed.labels_}
for name, labels in labelings.items():
    alone = attribute_relative_balance_scores(labels, sensitive_features=people)
    shown = {str(column): round(float(value), 3) for column, value in alone.items()}
    crossing = relative_balance_score(labels, sensitive_features=both)
    ratio = cost_ratio_score(X, labels, plain)
    print(f"{name:9s}{shown}, combinations {crossing:.3f}, cost {ratio:.3f} x plain k-means")

# %%
# The counts of each attribute.

for column, table in separate.attribute_counts_.items():
    print(column, separate.attribute_groups_[column])
    print(table)
    print("misses its bounds by", separate.attribute_violations_[column], "rows")

# %%
# The combinations under both settings. In the upper figure they are free, as long as each
# attribute is mirrored.

figure, axes = plt.subplots(2, 1, figsize=(9, 6.4), layout="constrained")
plot_composition(separate.labels_, both, ax=axes[0]).set_title(
    "each attribute by itself", loc="left"
)
plot_composition(crossed.labels_, both, ax=axes[1]).set_title("their combinations", loc="left")
plt.show()
