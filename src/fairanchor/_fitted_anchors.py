"""What a fitted `AnchorFairClustering` can do: label new rows, write labels, be saved.

`FittedAnchors` is the half of the estimator that comes after ``fit``. The arithmetic is in
`AnchorModel` (`_model.py`), the file format in `_model_file.py`.
"""

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from fairanchor._sklearn_compat import check_weights
from fairanchor.clusterers._base import FairClusterer, check_rows, known_codes
from fairanchor.clusterers._fair_lloyd import distances_to
from fairanchor.rows import MemoryRows
from fairanchor.rows._open import kind_of


class FittedAnchors(ClassNamePrefixFeaturesOutMixin, TransformerMixin, FairClusterer):
    """Everything but the fit itself; ``fit`` sets ``_model``, ``_scale`` and ``_agreed``."""

    __metadata_request__predict = {"sensitive_features": True}
    __metadata_request__predict_proba = {"sensitive_features": True}
    __metadata_request__transform = {"sensitive_features": True}
    __metadata_request__score = {"sensitive_features": True, "sample_weight": True}

    def fit_predict(self, X, y=None, *, sensitive_features=None, sample_weight=None):
        """Fit and return the labels of all rows, also of rows that are not in memory.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), dataset or Dask collection
            Rows to cluster.
        y : Ignored
            Present for API consistency.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            Group of each row, or names of columns; see `fit`.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Cluster of each row.
        """
        self.fit(X, sensitive_features=sensitive_features, sample_weight=sample_weight)
        return self.labels_ if self._agreed is None else np.concatenate(list(self._agreed))

    def __sklearn_is_fitted__(self):
        return hasattr(self, "_model")

    def __getstate__(self):
        # Rows that are elsewhere, a cluster's client above all, cannot be stored.
        return super().__getstate__() | {"_agreed": None}

    def predict(self, X, *, sensitive_features=None):
        """Cluster of new rows, by the multipliers and prices of their groups.

        On the training rows this gives ``labels_``, but for ties (and, with ``solver="admm"``, but
        for the error of its last iteration; with unequal weights, but for the few rows that had
        to be rounded). New rows are labelled one by one: that their composition is fair as well is
        likely, not guaranteed.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            New rows.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            Their groups. Columns with titles are paired with those of `fit` by title, others by
            position. None, for groups that are not known, needs ``unknown_groups="blind"``.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Cluster of each row.
        """
        rows, model = self._new_rows(X, sensitive_features)
        return model.labels(rows)

    def predict_proba(self, X, *, sensitive_features=None):
        """Soft labels of new rows: their weight on the anchors of each cluster.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            New rows.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            Their groups.

        Returns
        -------
        soft_labels : ndarray of shape (n_samples, n_clusters)
            Rows on the simplex. They belong to the anchor graph: `predict` also uses prices,
            and the centres of the refinement, so that its answer need not be the largest. On the
            training rows they add up to the targets, as nearly as the graph was solved: on a
            sample only, by default, where a refinement follows (``graph_rows``).
        """
        rows, model = self._new_rows(X, sensitive_features)
        return model.soft_labels(rows)

    def transform(self, X, *, sensitive_features=None):
        """Anchor weights Z of new rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            New rows.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            Their groups.

        Returns
        -------
        Z : csr_array of shape (n_samples, n_anchors)
            Rows on the simplex.
        """
        rows, model = self._new_rows(X, sensitive_features)
        return model.anchor_weights(rows)

    def fit_transform(self, X, y=None, *, sensitive_features=None, sample_weight=None):
        """Fit, and return the anchor weights of the same rows; see `fit` and `transform`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to cluster.
        y : Ignored
            Present for API consistency.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            Group of each row.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.

        Returns
        -------
        Z : csr_array of shape (n_samples, n_anchors)
            Rows on the simplex.
        """
        self.fit(X, sensitive_features=sensitive_features, sample_weight=sample_weight)
        return self.transform(X, sensitive_features=sensitive_features)

    def score(self, X, y=None, *, sensitive_features=None, sample_weight=None):
        """Minus the k-means cost of the rows under `predict`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : Ignored
            Present for API consistency.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            Their groups.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.

        Returns
        -------
        score : float
            The larger, the better.
        """
        rows, model = self._new_rows(X, sensitive_features)
        distances = distances_to(rows, model.centers)
        own = distances[np.arange(rows.n_rows), model.labels(rows)]
        weights = check_weights(sample_weight, rows.X)
        cost = own.sum() if weights is None else weights @ own
        return -float(cost) / self._scale / self._scale

    def save(self, path, *, force=False):
        """Write the fitted model to a file, whole or not at all; see `load_model`.

        Parameters
        ----------
        path : str or path-like
            The file, usually ``.npz``.
        force : bool, default=False
            Whether an existing file may be replaced.
        """
        from fairanchor._model_file import save_model  # which imports this module

        save_model(self, path, force=force)

    def write_labels(self, path, *, force=False):
        """Write the labels of the rows that `fit` read from a dataset or a Dask collection.

        A folder of Parquet files that have the names and the row order of the input's, with
        the columns ``row`` (number of the row in its file) and ``cluster``. Labels are
        computed in one more pass, chunk by chunk, and never gathered.

        Parameters
        ----------
        path : str or path-like
            The folder, which appears when it is complete.
        force : bool, default=False
            Whether an existing folder of labels may be replaced.
        """
        self._labels_elsewhere().write(path, force=force)

    def iter_labels(self):
        """Labels of the rows that `fit` read from a dataset or a Dask collection.

        Yields
        ------
        labels : ndarray of shape (n_chunk_rows,)
            Of one chunk after the other, in row order.
        """
        yield from self._labels_elsewhere()

    def _labels_elsewhere(self):
        check_is_fitted(self)
        elsewhere = self.__dict__.get("_agreed")
        if elsewhere is None:
            if not hasattr(self, "labels_"):
                raise ValueError(
                    "This model was loaded or copied: it does not know the rows that it was fitted "
                    "to. Label them with predict, or fit again."
                )
            raise ValueError(
                "The rows were in memory: their labels are in labels_. Labels are written chunk by "
                "chunk for datasets and Dask collections of more than one chunk."
            )
        return elsewhere

    def _new_rows(self, X, sensitive_features):
        """Checked new rows in the fitted scale, and the model that labels them."""
        check_is_fitted(self)
        if kind_of(X) is not None:
            raise TypeError(
                f"X is a {type(X).__name__}, expected rows in memory. Give new rows a part at a "
                "time; the labels of the rows that were fitted are written by write_labels."
            )
        X = check_rows(self, X, reset=False)
        codes, extra = known_codes(
            self,
            sensitive_features,
            len(X),
            unknown_groups=self.unknown_groups,
            missing_groups=self.missing_groups,
        )
        model = self._model
        if X.shape[1] != model.centers.shape[1]:
            raise ValueError(
                f"X has {X.shape[1]} features, expected the {model.centers.shape[1]} of the last "
                "successful fit."
            )
        for prices in extra.values():
            model = model.with_blind_group(prices)
        if (codes < 0).any():
            codes = np.where(codes < 0, len(model.shares), codes)
            model = model.with_blind_group()
        X = X if self._scale == 1.0 else X * self._scale
        return MemoryRows(X, codes, len(model.shares), n_jobs=self.n_jobs), model
