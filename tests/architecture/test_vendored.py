"""Files of other projects are in the package as their authors released them: nobody edits them by hand."""

from __future__ import annotations

import hashlib

from tests.architecture.source import PACKAGE

VENDOR = PACKAGE / "web" / "static" / "vendor"
RELEASED = {  # htmx 2.0.11, idiomorph 0.8.0, uPlot 1.6.32; dagre 3.1.1 less its last line, which names a map
    "dagre.min.js": "31920d90797df830857836c8a595fa380e88c540dfc0c3af8e5b367b03c6ba54",
    "htmx.min.js": "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717",
    "idiomorph-ext.min.js": "5811b9a7eda14878b7dab4378bf60432e1bb6f11fcfb970cc26540642650181e",
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}


def test_vendored_files_are_what_was_released() -> None:
    found = {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in VENDOR.iterdir()
        if file.suffix != ".LICENSE"
    }

    assert found == RELEASED
