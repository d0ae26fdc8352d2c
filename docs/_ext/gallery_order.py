"""The order of the gallery: ``plot_2_...`` comes before ``plot_10_...``."""


def number_of(filename: str) -> int:
    """The number in the name of an example."""
    return int(filename.split("_")[1])
