"""Draw the first figure of the README and of the documentation: ``python docs/first_look.py``."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
from sklearn.cluster import KMeans

mpl.use("agg")

import matplotlib.pyplot as plt  # noqa: E402

from fairanchor import FairKMeans  # noqa: E402
from fairanchor.datasets import make_zafar  # noqa: E402
from fairanchor.plotting import plot_composition  # noqa: E402

OUTPUT = Path(__file__).parent / "_static" / "first_look.png"


def main():
    """The rows of the README's example, with and without fairness."""
    data = make_zafar(20_000, variant="original", random_state=0)
    X, group = data.data, np.array(["group A", "group B"])[data.sensitive_features]
    plain = KMeans(5, n_init=10, random_state=0).fit(X)
    fair = FairKMeans(5, random_state=0).fit(X, sensitive_features=group)
    figure, axes = plt.subplots(1, 2, figsize=(11, 3.4), layout="constrained")
    plot_composition(plain.labels_, group, ax=axes[0]).set_title("plain k-means", loc="left")
    plot_composition(fair, ax=axes[1]).set_title("FairKMeans", loc="left")
    figure.savefig(OUTPUT, dpi=110, facecolor="white")


if __name__ == "__main__":
    main()
