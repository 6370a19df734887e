"""Sphinx configuration: Markdown pages by MyST, the API from numpydoc docstrings."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

project = "KohakuTPU"
author = "KohakuTPU contributors"
project_copyright = "2026, KohakuTPU contributors"

extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["Thumbs.db", ".DS_Store"]

html_theme = "furo"
html_title = "KohakuTPU"
html_show_sphinx = False

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # numpydoc sections already name the types
# Members are documented where they stand; a table of them on every class would be said twice.
numpydoc_show_class_members = False
autosummary_generate = False  # loaded by numpydoc, unused
