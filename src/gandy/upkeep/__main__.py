"""Print the documentation page about Gandy's own tables."""

from __future__ import annotations

import sys

from gandy.upkeep.page import render_page

sys.stdout.write(render_page())
