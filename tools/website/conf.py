"""How Sphinx builds the site."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from posenc_ref import __version__  # noqa: E402

project = "posenc-ref"
author = "the posenc-ref authors"
release = version = __version__
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "tools.website.extension",
]

# Markdown as GitHub reads it.
myst_heading_anchors = 6
myst_enable_extensions = ["deflist"]
myst_links_external_new_tab = False
# A generated page may begin its sections at a deeper level.
# A role such as :attr:`head_dim` may mean the field of several classes.
suppress_warnings = ["myst.header", "ref.python"]

# Notebooks are Python files; each is executed in every build, and an error in one stops the build.
nb_custom_formats = {".py": ["jupytext.reads", {"fmt": "py:percent"}]}
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True

autodoc_typehints = "none"  # numpydoc states types, with shapes
autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False
default_role = "literal"

smartquotes = False  # what the pages say is what is shown, "--option" too

html_theme = "pydata_sphinx_theme"
html_title = "posenc-ref"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_favicon = "static/favicon.svg"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "navigation_with_keys": False,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_context = {"default_mode": "auto"}
