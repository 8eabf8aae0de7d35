"""How a stage says how far it is. What a person sees of it is made in graphmill.jobs.progress."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Told of the stages as they run; a stage that was finished before is told as ``skip``."""

    def start(self, stage: str, total: int | None, unit: str, done: int = 0) -> None:
        """A stage begins: ``total`` units to do in all, None where unknown, ``done`` of them by an earlier run."""

    def advance(self, num_units: int = 1, note: str = "") -> None:
        """Some more units of the stage are done."""

    def finish(self, note: str = "") -> None:
        """The stage is done; ``note`` sums it up."""

    def skip(self, stage: str) -> None:
        """The stage was finished by an earlier run and nothing that shapes it has changed."""

    def note(self, message: str) -> None:
        """Something that a person waiting may like to know; it is shown and not kept."""

    def warn(self, message: str) -> None:
        """Something that a person should know and that doesn't stop the run."""


class Silent:
    """Says nothing, but keeps the warnings."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def start(self, stage: str, total: int | None, unit: str, done: int = 0) -> None: ...

    def advance(self, num_units: int = 1, note: str = "") -> None: ...

    def finish(self, note: str = "") -> None: ...

    def skip(self, stage: str) -> None: ...

    def note(self, message: str) -> None: ...

    def warn(self, message: str) -> None:
        self.warnings.append(message)
