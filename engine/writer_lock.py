"""One writer a file: a lock beside it, for as long as a process writes to it."""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TextIO

from graphmill.engine.config import ConfigError


class WriterLock:
    """Holds a file, which need not be there, for this process until it is closed or the process ends.

    what  the file's content, as errors name it
    Raises ConfigError where another process holds it, and where it can't be written or is no regular file.
    """

    def __init__(self, path: Path, what: str) -> None:
        self._what = what
        self.path = self._regular(path)
        """The file itself, which a link may lead to: a link may not be replaced."""
        self._lock: TextIO | None = self._acquire()

    def unwritable(self, error: OSError, path: Path | None = None) -> ConfigError:
        """What is told where the file can't be written."""
        return ConfigError(f"can't write the {self._what} to {path or self.path}: {error.strerror}")

    def close(self) -> None:
        """Lets others have the file. Doing it twice is fine."""
        lock, self._lock = self._lock, None
        if lock is not None:
            with suppress(OSError):
                Path(lock.name).unlink()
            lock.close()

    def __enter__(self) -> WriterLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _regular(self, path: Path) -> Path:
        try:
            if not stat.S_ISREG(path.stat().st_mode):
                raise ConfigError(f"can't write the {self._what} to {path}: it is no regular file")
        except FileNotFoundError:
            pass
        except OSError as error:
            raise self.unwritable(error, path) from error
        return path.resolve()

    def _acquire(self) -> TextIO:
        """A file beside the path, locked until it is closed."""
        beside = self.path.with_name(self.path.name + ".lock")
        while True:
            try:
                lock = beside.open("a")
            except OSError as error:
                raise self.unwritable(error) from error
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(lock.fileno()), beside.stat()):
                    return lock
            except FileNotFoundError:
                pass  # whoever had it has just ended and taken it away
            except OSError as error:
                lock.close()
                if not isinstance(error, BlockingIOError):
                    raise self.unwritable(error) from error
                raise ConfigError(
                    f"another process is writing the {self._what} to {self.path}; wait for it, or name another file"
                ) from None
            lock.close()
