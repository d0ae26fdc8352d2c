"""`transform` of the estimators that have centres."""

from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from fairanchor._utils._typing import Table


class CenterDistances(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Transforms rows into their distances to the centres, as scikit-learn's `KMeans` does."""

    def transform(self, X: Table) -> Any:
        """Distances of rows to the centres, whatever their groups are.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        distances : ndarray of shape (n_samples, n_clusters), or data frame
            Euclidean distances; of unit rows, where the metric is the cosine. A data frame if
            ``set_output`` asks for one.
        """
        check_is_fitted(self)
        model: Any = self
        rows = model._rows_of(X)
        squares = rows.map_to_table(model._costs.write, len(model.cluster_centers_))
        return np.sqrt(squares) / model._length

    @property
    def _n_features_out(self) -> int:
        model: Any = self
        return len(model.cluster_centers_)
