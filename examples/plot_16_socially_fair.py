"""
Socially fair k-means: centres that serve every group
=====================================================

Four clinics for a town and a few villages. Plain k-means minimises the average over all people, so
the many decide; `FairKMeans` gives every clinic the same mixture of patients, which here means long
ways; `SociallyFairKMeans` minimises the largest average cost of a group.
"""

# %%
# 1,800 people live in the town, 200 in the villages, which are far apart.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans

from fairanchor import FairKMeans, SociallyFairKMeans

rng = np.random.default_rng(0)
town = rng.normal(0.0, 1.0, (1_800, 2))
villages = rng.normal([8.0, 0.0], 2.5, (200, 2))
homes = np.vstack([town, villages])
place = np.repeat(["town", "village"], [1_800, 200])

models = {
    "KMeans": KMeans(4, n_init=10, random_state=0).fit(homes),
    "FairKMeans": FairKMeans(4, random_state=0).fit(homes, sensitive_features=place),
    "SociallyFairKMeans": SociallyFairKMeans(4, random_state=0).fit(
        homes, sensitive_features=place
    ),
}

figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), sharey=True, layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    squares = ((homes - model.cluster_centers_[model.labels_]) ** 2).sum(axis=1)
    costs = {group: squares[place == group].mean() for group in ("town", "village")}
    print(f"{name:19s}", {group: round(float(cost), 2) for group, cost in costs.items()})
    ax.scatter(*homes.T, c=model.labels_, s=4, cmap="tab10")
    ax.plot(*model.cluster_centers_.T, "k*", markersize=11)
    ax.set(title=f"{name}\nworst group {max(costs.values()):.2f}", aspect="equal")
plt.show()

# %%
# The costs are average squared distances to the own centre. Everyone goes to the nearest centre, so
# new people need no group:

print(models["SociallyFairKMeans"].predict([[7.0, 1.0], [0.0, 0.0]]))

# %%
# The weights of the groups are the dual variables of the problem: how much a group matters for the
# position of the centres. A weight of 0 would mean that another group alone is the worst.

social = models["SociallyFairKMeans"]
print(dict(zip(social.groups_.tolist(), social.group_weights_.round(3).tolist(), strict=True)))
