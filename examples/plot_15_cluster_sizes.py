"""
Cluster sizes: equal-size k-means and capacities
================================================

Delivery stops become tours. A van holds a limited number of parcels, so a tour has a largest size,
and tours of equal size share the work fairly among the drivers. `FairnessTargets` with ``min_size``
and ``max_size`` gives `FairKMeans` hard bounds on the sizes of its clusters; no groups are needed.
"""

# %%
# Stops are dense in a city and sparse around it. Plain k-means makes tours of very different sizes.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans

from fairanchor import FairKMeans, FairnessTargets
from fairanchor.metrics import cost_ratio_score

rng = np.random.default_rng(0)
city = rng.normal(0.0, 1.0, (1_400, 2))
around = rng.uniform(-6.0, 6.0, (600, 2))
stops = np.vstack([city, around])
n_tours, n_stops = 8, len(stops)

plain = KMeans(n_tours, n_init=10, random_state=0).fit_predict(stops)
bounds = {
    "at most 300 stops": FairnessTargets(max_size=300),
    "250 stops each": FairnessTargets(min_size=250, max_size=250),
}
tours = {"plain k-means": plain} | {
    name: FairKMeans(n_tours, fairness=sizes, random_state=0).fit_predict(stops)
    for name, sizes in bounds.items()
}
for name, labels in tours.items():
    sizes = np.sort(np.bincount(labels))
    print(f"{name:18s} sizes {sizes}, cost {cost_ratio_score(stops, labels, plain):.3f}")

# %%
# The cost is relative to plain k-means. The bounds are met exactly, and every stop is in the tour
# that is cheapest for these bounds and centres.

figure, axes = plt.subplots(1, 3, figsize=(11, 3.8), sharey=True, layout="constrained")
for ax, (name, labels) in zip(axes, tours.items(), strict=True):
    ax.scatter(*stops.T, c=labels, s=4, cmap="tab10")
    sizes = np.bincount(labels)
    ax.set(title=f"{name}\n{sizes.min()} to {sizes.max()} stops", aspect="equal")
plt.show()

# %%
# Parcels instead of stops: with ``sample_weight`` a size is a weight. A stop is not split, so a
# tour can exceed its bound by the parcels of one stop.

parcels = rng.integers(1, 10, n_stops).astype(float)
capacity = 1.1 * parcels.sum() / n_tours
vans = FairKMeans(n_tours, fairness=FairnessTargets(max_size=capacity), random_state=0)
vans.fit(stops, sample_weight=parcels)
print(f"capacity {capacity:.0f}, parcels {np.bincount(vans.labels_, parcels).astype(int)}")

# %%
# On the command line: ``fairanchor fit stops.csv -k 8 --max-size 300 -o tours.csv``. Users of
# k-means-constrained know the bounds as ``size_min`` and ``size_max``.
