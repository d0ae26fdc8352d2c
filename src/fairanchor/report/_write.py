"""A text file that appears whole or not at all."""

from fairanchor._utils._files import check_output, write_bytes


def check_target(path, *, force):
    """Refuse an output path that cannot, or must not, be written."""
    check_output(path, force=force)


def write_text(path, text, *, force=False):
    """Write UTF-8 text; whatever goes wrong, an older file of that name stays as it was."""
    write_bytes(path, text.encode("utf-8"), force=force)
