"""The application of case `shapes`: one train for each kind of job, three groups, a length set from outside.

Every job reads its length from a file when it begins, so that one seeded queue serves every length, and
appends its own mark, one write of 24 bytes, when it ends: when it began, when it ended, its group.
"""

from __future__ import annotations

import asyncio
import os
import struct
import time
from pathlib import Path
from typing import Final

from gandy import Gandy

FOLDER_VARIABLE: Final = "GANDY_BENCH_SHAPES"
GROUPS: Final = ("alpha", "beta", "gamma")
LENGTH: Final = struct.Struct("d")  #: milliseconds
MARK: Final = struct.Struct("ddq")  #: monotonic seconds at the begin and at the end, index of the group

app = Gandy("shapes")
for _name in GROUPS:
    app.group(_name)


def _open(name: str, flags: int) -> int:
    return os.open(Path(os.environ.get(FOLDER_VARIABLE, os.devnull)) / name, flags)


class Files:
    """The two files, opened at the first job of a process."""

    length: int = -1
    marks: int = -1

    @classmethod
    def read_length(cls) -> float:
        """Read the length of a job of now, in seconds."""
        if cls.length < 0:
            cls.length, cls.marks = _open("length", os.O_RDONLY), _open("marks", os.O_WRONLY | os.O_APPEND)
        milliseconds: float = LENGTH.unpack(os.pread(cls.length, LENGTH.size, 0))[0]
        return milliseconds / 1000

    @classmethod
    def mark(cls, begun: float, group: int) -> None:
        """Append the mark of one execution."""
        os.write(cls.marks, MARK.pack(begun, time.monotonic(), group))


def burn(seconds: float) -> None:
    """Use so much CPU time."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


@app.train(name="async")
async def wait_async(group: int) -> None:
    """Wait on the event loop."""
    begun = time.monotonic()
    await asyncio.sleep(Files.read_length())
    Files.mark(begun, group)


@app.train(name="thread")
def wait_in_thread(group: int) -> None:
    """Wait in a thread."""
    begun = time.monotonic()
    time.sleep(Files.read_length())
    Files.mark(begun, group)


@app.train(name="process", process=True)
def burn_in_process(group: int) -> None:
    """Compute in a process."""
    begun = time.monotonic()
    burn(Files.read_length())
    Files.mark(begun, group)


TRAINS: Final = {"async": wait_async, "thread": wait_in_thread, "process": burn_in_process}
