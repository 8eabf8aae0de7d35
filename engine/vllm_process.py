"""The model process from its parent's side: started when wanted, spoken to over a socket, and gone when closed."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from graphmill.engine.server import ServerError

WORKER = Path(__file__).with_name("vllm_worker.py")
END_S, LOADING_END_S = 20.0, 0.5
"""How long a process may take to end by itself; one that is loading a model doesn't listen."""
LAST_ERRORS, LAST_LINES = 6, 12
"""How many lines of its log are quoted: those that name an error, or else just the last."""
TRIED = ((0, 26), (0, 32))
"""First and last version of vLLM that this was tried with."""
_LENGTH = struct.Struct("<I")
_TELLING = re.compile(r"\b[A-Z]\w*(?:Error|Exception|Exit)\b: |out of memory|CUDA error|\bKilled\b|Fatal Python error")
_NOISE = re.compile(r"^(?:\(\w+ pid=\d+\) )?(?:INFO|DEBUG) |^\s*$")


class EngineGone(ServerError):  # noqa: N818  (named for what has happened to the engine)
    """The model process ended; the message holds its last words. What was done is kept."""


class VLLMProcess:
    """One vLLM engine in a process of its own.

    setup    what vllm_worker.py is told: task ("generate", "embed" or "score"), args, and what is the task's own
    python   of the environment that vLLM is installed in; None for this one
    devices  what CUDA_VISIBLE_DEVICES is to be; None leaves it
    deliver  is called with every reply, and once with None when the process has ended, in a thread of this object's
    """

    def __init__(
        self,
        setup: Mapping[str, Any],
        deliver: Callable[[dict[str, Any] | None], None],
        python: str | None = None,
        devices: str | None = None,
    ) -> None:
        self._deliver = deliver
        self._ready = threading.Event()
        self._sending = threading.RLock()
        self._is_closed = self._is_done = False
        self._ended_itself = False
        self.facts: dict[str, Any] = {}
        """version, max_model_len, and dimension of an embedder; once it is ready."""
        self.fatal = ""
        self._log: IO[bytes] = tempfile.NamedTemporaryFile(prefix="graphmill-vllm-", suffix=".log", delete=False)  # noqa: SIM115
        ours, theirs = socket.socketpair()
        # vLLM would import the folder that a script lies in; -P keeps graphmill's modules out of its way.
        command = [python or sys.executable, "-P", str(WORKER), str(theirs.fileno())]
        environment = dict(os.environ) | {"VLLM_NO_USAGE_STATS": "1", "TOKENIZERS_PARALLELISM": "true"}
        if devices is not None:
            environment["CUDA_VISIBLE_DEVICES"] = devices
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                env=environment,
                start_new_session=True,  # a Ctrl-C is ours to handle, and the engine's own processes are ended with it
            )
        except OSError as error:
            ours.close()
            self._log.close()
            Path(self._log.name).unlink()
            raise EngineGone(f"can't start {command[0]} for vLLM: {error.strerror}") from error
        finally:
            theirs.close()
        self._socket = ours
        self._thread = threading.Thread(target=self._receive, daemon=True, name="vllm-replies")
        self._thread.start()
        threading.Thread(target=self._watch, daemon=True, name="vllm-watch").start()
        self.send(setup)

    def wait_ready(self) -> dict[str, Any]:
        """Waits until the engine is loaded; raises EngineGone when it ends instead."""
        self._ready.wait()
        if not self.facts:
            raise EngineGone(self.last_words())
        return self.facts

    def send(self, message: Mapping[str, Any]) -> None:
        """Sends one message. A process that is gone is told of by ``deliver``, not here."""
        data = json.dumps(message).encode("utf-8", "surrogatepass")
        try:
            with self._sending:
                self._socket.sendall(_LENGTH.pack(len(data)) + data)
        except OSError:
            return

    def last_words(self) -> str:
        """Why the process ended: its own reason, and the last lines that it wrote."""
        self._process.poll()
        self._log.flush()
        lines = Path(self._log.name).read_text("utf-8", "replace").splitlines()
        # A traceback's frames say less than its errors, and the first that was met is often the cause of the others.
        telling = list(dict.fromkeys(line.strip() for line in lines if _TELLING.search(line)))[-LAST_ERRORS:]
        telling = telling or [line for line in lines if not _NOISE.match(line)][-LAST_LINES:]
        code = self._process.returncode
        how = f"vLLM's process ended with {_status(code)}" if code is not None else "vLLM's process is gone"
        shown = "\n".join(f"  {line[:300]}" for line in telling)
        return f"{how}{': ' + self.fatal if self.fatal else ''}; its log is {self._log.name}, which says:\n{shown}"

    def hang_up(self) -> None:
        """Tells the process to end, without waiting for it."""
        self._is_closed = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Ends the process and those that it started, which gives their memory back. Doing it twice is fine."""
        if self._is_done:
            return
        self.hang_up()
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_S if self.facts else LOADING_END_S)
        finally:
            self._kill_group()
        self._process.wait()
        self._thread.join(END_S)
        self._socket.close()
        self._log.close()
        self._is_done = True
        if not self._ended_itself:  # else its log is what the error points to
            Path(self._log.name).unlink(missing_ok=True)

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _watch(self) -> None:
        """Ends what a process that is gone has left: an engine of its own may hold our socket open, and the GPU."""
        self._process.wait()
        self._kill_group()

    def _receive(self) -> None:
        with self._socket.makefile("rb") as incoming:
            while (message := _next(incoming)) is not None:
                if "reply" in message:
                    self._deliver(message["reply"])
                elif "ready" in message:
                    self.facts = message["ready"]
                    self._ready.set()
                else:
                    self.fatal = message.get("fatal", "")
                    break
        if not self._is_closed:
            self._ended_itself = True
            with contextlib.suppress(subprocess.TimeoutExpired):  # for what it still has to say
                self._process.wait(END_S)
        self._ready.set()
        self._deliver(None)


def untried(version: str) -> str | None:
    """A warning where this version of vLLM was not tried, else None."""
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if TRIED[0] <= numbers <= TRIED[1]:
        return None
    first, last = (".".join(map(str, bound)) for bound in TRIED)
    return f"vLLM {version} was not tried with this version of graphmill, {first} to {last} were"


def _next(incoming: IO[bytes]) -> dict[str, Any] | None:
    try:
        head = incoming.read(_LENGTH.size)
        if len(head) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack(head)
        data = incoming.read(length)
    except OSError:
        return None
    return json.loads(data) if len(data) == length else None


def _status(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
