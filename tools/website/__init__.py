"""The site: which pages it has, how they are made, and how Sphinx is set.

Sphinx, because the docstrings are numpydoc in reStructuredText, which it reads, and MyST reads the
Markdown in docs/ with GitHub's anchors. pydata-sphinx-theme brings its own fonts and scripts (no
CDN), a dark mode, and is tested for accessibility by its authors.
"""
