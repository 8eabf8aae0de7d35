"""Progress for people: a live bar on a terminal, one line a stage where output is piped, nothing with --json."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

from graphmill.jobs.show import printable, show

if TYPE_CHECKING:
    from rich.progress import TaskID

LINE_EVERY_S = 30.0
"""How often a long stage says where it is when output is piped."""


class PlainProgress:
    """Lines on standard error: the start of a stage, every half minute where it is, and its end."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self.warnings: list[str] = []
        self._stage, self._unit = "", ""
        self._total: int | None = None
        self._done = self._before = 0
        self._begin = self._said = 0.0

    def __enter__(self) -> PlainProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def start(self, stage: str, total: int | None, unit: str, done: int = 0) -> None:
        self._stage, self._total, self._unit, self._before, self._done = stage, total, unit, done, done
        self._begin = self._said = time.monotonic()
        if done:
            self._say(f"{stage}: {done:,} of {total or 0:,} {unit} were done before")

    def advance(self, num_units: int = 1, note: str = "") -> None:
        self._done += num_units
        now = time.monotonic()
        if now - self._said >= LINE_EVERY_S:
            self._said = now
            self._say(f"{self._stage}: {self._where(now)}{', ' + note if note else ''}")

    def finish(self, note: str = "") -> None:
        seconds = time.monotonic() - self._begin
        told = f"{self._stage}: {self._done - self._before:,} {self._unit} in {seconds:.1f} s"
        if self._before:
            told += f", {self._done:,} with those done before"
        self._say(f"{told}{', ' + note if note else ''}")

    def skip(self, stage: str) -> None:
        self._say(f"{stage}: already done")

    def note(self, message: str) -> None:
        self._say(message)

    def warn(self, message: str) -> None:
        self.warnings.append(message)
        self._say(f"warning: {message}")

    def _where(self, now: float) -> str:
        rate = (self._done - self._before) / max(now - self._begin, 1e-9)
        if self._total is None:
            return f"{self._done:,} {self._unit}, {rate:,.1f}/s"
        left = (self._total - self._done) / rate if rate > 0 else float("inf")
        remaining = f"{left:,.0f} s left" if left != float("inf") else "time left unknown"
        return f"{self._done:,} of {self._total:,} {self._unit}, {rate:,.1f}/s, {remaining}"

    def _say(self, line: str) -> None:
        if not self.quiet:
            show(line, file=sys.stderr)


class LiveProgress:
    """A bar for each stage with its rate and the time left."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self.warnings: list[str] = []
        self._console = Console(stderr=True)
        self._bars = Progress(
            SpinnerColumn(finished_text="[green]✓[/]"),
            TextColumn("[bold]{task.description:<11}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[unit]:<14}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[rate]}"),
            console=self._console,
        )
        self._task: TaskID | None = None
        self._before = 0
        self._begin = 0.0

    def __enter__(self) -> LiveProgress:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def start(self, stage: str, total: int | None, unit: str, done: int = 0) -> None:
        self._before, self._begin = done, time.monotonic()
        self._task = self._bars.add_task(stage, total=total, completed=done, unit=unit, rate="")

    def advance(self, num_units: int = 1, note: str = "") -> None:
        if self._task is not None:
            self._bars.update(self._task, advance=num_units)
            self._bars.update(self._task, rate=self._rate(note))

    def finish(self, note: str = "") -> None:
        if self._task is not None:
            done = self._bars.tasks[self._task].completed
            # A stage with nothing to do is not worth a line.
            self._bars.update(self._task, total=done, completed=done, rate=note, visible=done > 0)

    def skip(self, stage: str) -> None:
        self._bars.add_task(stage, total=1, completed=1, unit="", rate="[dim]already done[/]")

    def note(self, message: str) -> None:
        self._console.print(printable(message), style="dim", markup=False, highlight=False)

    def warn(self, message: str) -> None:
        self.warnings.append(message)
        from rich.markup import escape

        self._console.print(f"[yellow]warning:[/] {escape(printable(message))}", highlight=False)

    def _rate(self, note: str) -> str:
        assert self._task is not None
        task = self._bars.tasks[self._task]
        rate = (task.completed - self._before) / max(time.monotonic() - self._begin, 1e-9)
        text = f"{rate:,.1f}/s"
        if task.total and rate > 0:
            seconds = int((task.total - task.completed) / rate)
            text += f", {seconds // 60}:{seconds % 60:02d} left"
        return f"{text}, {note}" if note else text


def make_progress(quiet: bool) -> PlainProgress | LiveProgress:
    """Bars on a terminal, plain lines elsewhere."""
    return LiveProgress() if sys.stderr.isatty() and not quiet else PlainProgress(quiet)
