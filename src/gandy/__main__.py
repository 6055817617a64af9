"""`python -m gandy`."""

from __future__ import annotations

from gandy.cli.main import main

main(prog_name="gandy")
