"""The anchor graph's optimisation problem, without its solution."""

import warnings

import numpy as np

from fairanchor._utils._shared_state import users_stacklevel

# Bounds of alpha relative to the anchors' mean squared norm: below, the dual is so steep that
# double precision cannot place its multipliers; above, all rows would be rounded to one and
# the same combination of anchors.
SMALLEST_ALPHA = 1e-10
LARGEST_ALPHA = 1e9
ALPHA_OF_EQUAL_ANCHORS = (1e-60, 1e60)


class AnchorGraphProblem:
    """Write each row as a convex combination of anchors::

        minimise  sum_i w_i (||x_i - H'z_i||^2 + alpha ||z_i||^2)   over z_i in the simplex
        subject to  sum of w_i z_ij over rows i of group r and anchors j of cluster l = t[l, r]

    Parameters
    ----------
    anchors : ndarray of shape (n_anchors, n_features)
        H.
    anchor_labels : ndarray of shape (n_anchors,)
        Cluster of each anchor.
    n_clusters : int
    alpha : float or None
        Ridge weight, in squared units of the features; None is the mean squared norm of the
        anchors, measured from their mean.
    announce : bool, default=True
        Whether a warning says that another alpha is used.

    Attributes
    ----------
    center : ndarray of shape (n_features,)
        Mean of the anchors. Since the weights of a row sum to one, the problem does not
        change when all is measured from there, and the products do not cancel.
    H : ndarray of shape (n_anchors, n_features)
        Anchors relative to ``center``.
    Q : ndarray of shape (n_anchors, n_anchors)
        ``HH' + alpha I``.
    """

    def __init__(self, anchors, anchor_labels, n_clusters, alpha, *, announce=True):
        self.anchors = anchors
        self.anchor_labels = np.asarray(anchor_labels, dtype=np.int64)
        self.n_clusters = n_clusters
        self.n_anchors = len(anchors)
        self.center = anchors.mean(axis=0)
        self.H = anchors - self.center
        gram = self.H @ self.H.T
        mean_square = np.trace(gram) / self.n_anchors
        if alpha is None:
            alpha = mean_square if mean_square > 0 else 1.0
        self.alpha = _effective_alpha(alpha, mean_square, announce)
        self.Q = gram + self.alpha * np.eye(self.n_anchors)

    @property
    def anchors_per_cluster(self):
        return np.bincount(self.anchor_labels, minlength=self.n_clusters)

    def products(self, X):
        """Inner products of rows and anchors, measured from ``center``."""
        return (X - self.center) @ self.H.T

    def half_prices(self, multipliers, allowed):
        """Linear price of each anchor for each group, shape (n_groups, n_anchors).

        Infinite for anchors that a group is not allowed to use.
        """
        return np.where(allowed, 0.5 * multipliers[self.anchor_labels].T, np.inf)


def _effective_alpha(alpha, mean_square, announce):
    if mean_square == 0.0:
        # The solution does not depend on it, but squares of the multipliers must not overflow.
        smallest, largest = ALPHA_OF_EQUAL_ANCHORS
        return alpha if smallest < alpha < largest else 1.0
    effective = min(max(alpha, SMALLEST_ALPHA * mean_square), LARGEST_ALPHA * mean_square)
    if announce and effective != alpha:
        warnings.warn(
            f"alpha is {alpha / mean_square:.1e} times the anchors' mean squared norm; "
            f"{effective / mean_square:.0e} times is used, the nearest value that can be solved in "
            "double precision. Standardise the features or change alpha.",
            UserWarning,
            stacklevel=users_stacklevel(),
        )
    return effective
