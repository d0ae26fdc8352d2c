"""How the documentation is built: ``make docs``. Nothing is downloaded, warnings are errors."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
# Numeric libraries with threads of their own would fight over the cores during the gallery.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import fairanchor  # noqa: E402

project = "fairanchor"
author = "The fairanchor developers"
copyright = f"2026, {author}"
release = version = fairanchor.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "native_math",
]
root_doc = "index"
exclude_patterns = [
    "sg_execution_times.rst",
    "gallery/sg_execution_times.rst",
    "gallery/backreferences",
    "**/*.ipynb",
    "background/_peers.md",  # included in compared.md
]
templates_path = ["_templates"]
# Single backquotes in docstrings name objects; those that are documented become links.
default_role = "obj"
highlight_language = "none"  # what is not said to be code is a formula or a command

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
html_math_renderer = "native"

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("fairanchor",),
    "run_stale_examples": True,  # at every build: a figure must be of the code beside it
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "min_reported_time": 1,
    "within_subsection_order": "gallery_order.number_of",
    # PyTorch is optional, and so is the example that needs it.
    "ignore_pattern": r"__init__\.py" if find_spec("torch") else r"__init__\.py|plot_17_deep\.py",
}

html_theme = "furo"
html_title = f"fairanchor {release}"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_show_sourcelink = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1d5f8a", "color-brand-content": "#1d5f8a"},
    "dark_css_variables": {"color-brand-primary": "#7fc1ea", "color-brand-content": "#7fc1ea"},
}
