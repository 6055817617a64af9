"""`gandy` as a program that starts quickly: each call is a copy of one process that has imported everything.

Each is a process of its own all the same: with its arguments, folder, environment, signals and exit status.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: What most commands import in the end; the modules of the commands themselves come on top.
MODULES: Final = ("gandy.app.running", "gandy.lifecycle", "gandy.web.application")
#: The program: passes its call on, and ends as the copy does.
PROGRAM: Final = """#!{python} -IS
import json, os, signal, socket, sys

call = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
with socket.socket(socket.AF_UNIX) as link:
    link.connect({address!r})
    socket.send_fds(link, [len(call).to_bytes(8, "big")], [0, 1, 2])
    link.sendall(call)
    pid = int.from_bytes(link.recv(8), "big")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: os.kill(pid, number))
    status = int.from_bytes(link.recv(8), "big", signed=True)
if status < 0:
    signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
sys.exit(status)
"""


@contextmanager
def warm_gandy(folder: Path) -> Iterator[Path]:
    """Keep the process that is copied; gives the folder of the program."""
    address = folder / "calls"
    program = folder / "gandy"
    program.write_text(PROGRAM.format(python=sys.executable, address=str(address)), encoding="utf-8")
    program.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(address))
        door.listen()
        with subprocess.Popen(
            [sys.executable, "-m", "tests.docs.warm", str(door.fileno())],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            pass_fds=[door.fileno()],
            start_new_session=True,
        ) as process:
            yield folder
            process.communicate()  # the end of its input ends it


def answer(door: socket.socket) -> list[str] | None:
    """Copy this process for each call, until its input ends; give the arguments in a copy, else nothing."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    callers: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([door, reader, sys.stdin], [], [])
        if sys.stdin in ready:
            return None
        if reader in ready:
            os.read(reader, 1_000)
            _tell(callers)
        if door in ready:
            caller, _ = door.accept()
            length, files, _, _ = socket.recv_fds(caller, 8, 3)
            with caller.makefile("rb") as stream:
                call = stream.read(int.from_bytes(length, "big"))
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for other in (door, caller, *callers.values()):
                    other.close()
                for end in (reader, writer):
                    os.close(end)
                return _become(json.loads(call), files)
            for file in files:
                os.close(file)
            callers[pid] = caller
            caller.sendall(pid.to_bytes(8, "big"))


def _tell(callers: dict[int, socket.socket]) -> None:
    """Tell those whose copies have ended how they did."""
    while callers:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with callers.pop(pid) as caller:
            caller.sendall(os.waitstatus_to_exitcode(status).to_bytes(8, "big", signed=True))


def _become(call: tuple[list[str], str, dict[str, str]], files: list[int]) -> list[str]:
    arguments, folder, environment = call
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    return arguments


def leave(main: Callable[..., None]) -> None:
    """Call, and end at once: taking apart all that was imported would take as long as the imports."""
    status: object = 0
    try:
        main(prog_name="gandy")
    except SystemExit as ended:
        status = ended.code
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status if isinstance(status, int) else 0)


if __name__ == "__main__":
    from gandy.cli.main import COMMANDS, main

    for module in (*MODULES, *(command.location.partition(":")[0] for command in COMMANDS.values())):
        import_module(module)
    gc.freeze()
    given = answer(socket.socket(fileno=int(sys.argv[1])))
    if given is not None:
        sys.path[0] = str(Path(sys.executable).parent)  # of the program, rather than of the tests
        sys.argv[:] = ["gandy", *given]
        leave(main)
