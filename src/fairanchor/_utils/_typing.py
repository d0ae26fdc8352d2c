"""Types of arguments that many public functions share."""

from os import PathLike
from typing import Any, TypeAlias

from numpy.random import RandomState
from numpy.typing import ArrayLike

#: An array, a data frame of any library, a dataset or a Dask collection.
Table: TypeAlias = Any
#: A fitted estimator, or labels.
Clustering: TypeAlias = Any
#: One-dimensional, of any library.
Labels: TypeAlias = Any
Seed: TypeAlias = int | RandomState | None
Path: TypeAlias = str | PathLike[str]
Weights: TypeAlias = ArrayLike | None
