"""Sphinx configuration: Markdown pages by MyST, the API from numpydoc docstrings."""

import sys
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parents[1]))

from kohakutpu.lang import Kernel

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


def signature(app: Sphinx, what: str, name: str, obj: Any, *_: Any) -> tuple[str, str] | None:
    """Show a kernel as it is called: arguments, knobs and results by name."""
    if not isinstance(obj, Kernel):
        return None
    arguments = [buffer.name for buffer in obj.ins]
    knobs = [f"{knob}={default!r}" for knob, default in obj.knobs.items()]
    results = ", ".join(buffer.name for buffer in obj.outs)
    return f"({', '.join([*arguments, *(['*'] if knobs else []), *knobs])})", results


def setup(app: Sphinx) -> None:
    """Register `signature`; Sphinx calls this."""
    app.connect("autodoc-process-signature", signature)
