"""`python -m gandy.settings` prints the reference of the settings."""

from __future__ import annotations

import sys

from gandy.settings.catalogue import render_reference

sys.stdout.write(render_reference())
