"""Starting the process of a train without the script that the parent runs.

The spawn method of multiprocessing runs the parent's main script again, under another name, before anything
else: one without a main guard would do its work a second time. Here a new interpreter gets the parent's
import path and runs one function; the application is imported by its own place later, as any module is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from multiprocessing import Pipe
from multiprocessing.spawn import get_executable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_BOOT: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from gandy.train.process.child import main; main(int(sys.argv[2]), sys.argv[3])"
)
_FLAGS: Final = (("dev_mode", "-Xdev"), ("utf8_mode", "-Xutf8"))


def start_process(place: str) -> tuple[subprocess.Popen[bytes], Connection[Any, Any]]:
    """Start an interpreter that serves the trains of a place; the pipe ends with it."""
    ours, theirs = Pipe()
    try:
        process = subprocess.Popen(  # noqa: S603 - this very interpreter
            [*_command(), "-c", _BOOT, json.dumps(sys.path), str(theirs.fileno()), place],
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
        )
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()  # else the pipe would not end with the child
    return process, ours


def _command() -> list[str]:
    flags = [flag for attribute, flag in _FLAGS if getattr(sys.flags, attribute)]
    return [os.fsdecode(get_executable()), *flags, *(f"-W{option}" for option in sys.warnoptions)]
