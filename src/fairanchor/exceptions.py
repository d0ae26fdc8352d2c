"""Warnings of this library; errors are ``ValueError`` and ``TypeError`` as in scikit-learn.

A run that did not converge warns with scikit-learn's ``ConvergenceWarning``.
"""


class FairnessWarning(UserWarning):
    """The result is valid, but not all of what the user may have expected of its fairness."""
