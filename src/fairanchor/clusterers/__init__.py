"""Fair clustering methods, one per file, each an estimator that works alone or on anchors."""

__all__ = []
