"""Formulas as MathML, which browsers draw themselves: no script and no network is needed.

Sphinx's own renderer loads a script from elsewhere. The translation from TeX is that of docutils.
"""

from html import escape

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

logger = logging.getLogger(__name__)


def setup(app):
    """Register the renderer ``native``."""
    app.add_html_math_renderer("native", (visit_inline, None), (visit_block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def visit_inline(translator, node):
    """A formula within a line."""
    translator.body.append(mathml(node, as_block=False))
    raise nodes.SkipNode


def visit_block(translator, node):
    """A formula by itself, which scrolls where the page is narrower."""
    translator.body.append(f'<div class="formula">{mathml(node, as_block=True)}</div>\n')
    raise nodes.SkipNode


def mathml(node, *, as_block):
    """The formula; what cannot be translated is a warning, hence an error of the build."""
    try:
        return tex2mathml(node.astext(), as_block=as_block)
    except MathError as error:
        logger.warning("formula %r: %s", node.astext(), error, location=node)
        return f"<code>{escape(node.astext())}</code>"
