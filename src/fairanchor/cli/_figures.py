"""Figures that commands write: whole or not at all, and equal for equal results."""


def save_figure(draw, output, force, *, salt):
    """Write what ``draw(ax)`` draws to a file; its suffix is the format."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    from fairanchor._utils._files import replacing

    suffix = output.rsplit(".", 1)[1].lower()
    # Text stays text, and no id in the file is random.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}):
        figure = Figure(figsize=(7.6, 5.2), layout="constrained")
        draw(figure.add_subplot())
        with replacing(output, force=force) as file:
            figure.savefig(file, format=suffix, dpi=150, metadata=_undated(suffix))


def _undated(suffix):
    """Metadata without a date: equal results are equal files."""
    return {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(suffix)
