"""``graphmill chat``: a conversation with an index."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

from graphmill.engine.answer import Answer
from graphmill.engine.build import OpenIndex, open_index
from graphmill.engine.cite import only_citing, without_own_references
from graphmill.engine.config import ConfigError, load_config
from graphmill.engine.models import Message
from graphmill.engine.query_param import MODES, QueryParam
from graphmill.jobs.errors import explain
from graphmill.jobs.progress import PlainProgress
from graphmill.jobs.write_markdown import write_markdown

PROMPT = "› "
HELP = """\
/mode [NAME]   show or change the mode
/sources       where the last answer's references stand
/context       what the last answer was made from
/clear         forget the conversation
/help          this list
/quit          end, as Ctrl-D does; Ctrl-C stops an answer that is being written"""


def run(
    index: Path,
    param: Mapping[str, Any],
    conversation: Path | None,
    config_file: Path | None,
    settings: Mapping[str, Any],
    as_json: bool,
) -> int:
    """Answers what is typed, or comes line by line on standard input, until that ends.

    conversation  a JSONL file of messages: it is gone on with, and what is said is added to it
    """
    try:
        parameters = QueryParam(**param, stream=not as_json)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    history = _read(conversation) if conversation is not None else []
    is_typed = sys.stdin.isatty() and not as_json
    progress = PlainProgress(quiet=as_json)
    with open_index(index, load_config(config_file, settings), progress=progress) as opened:
        chat = Chat(opened, parameters, history, conversation, as_json)
        if is_typed:
            print(f"{_about(opened, parameters, history)}\n/help lists what can be typed beside questions.\n")
        for line in _lines(is_typed):
            if not line.strip():
                continue
            if line.startswith("/") and not as_json:
                if not chat.command(line):
                    break
            else:
                chat.ask(line.strip())
    return 0


class Chat:
    """A conversation that is under way."""

    def __init__(
        self, opened: OpenIndex, param: QueryParam, history: list[Message], file: Path | None, as_json: bool
    ) -> None:
        self.opened, self.param, self.history, self.file, self.as_json = opened, param, history, file, as_json
        self.last: Answer | None = None

    def ask(self, question: str) -> None:
        """Shows the answer, and keeps it for the questions after it; one that fails or is stopped is not kept."""
        try:
            answer = self.opened.query(question, replace(self.param, conversation_history=tuple(self.history)))
            if self.as_json:
                print(json.dumps(answer.document(), ensure_ascii=False), flush=True)
            else:
                write_markdown(answer)
                print()
        except KeyboardInterrupt:
            print("\n(stopped)\n")
            return
        except Exception as error:
            message, _ = explain(error)
            if message is None:
                raise
            print(json.dumps({"question": question, "error": message}) if self.as_json else f"graphmill: {message}\n")
            return
        for warning in answer.warnings if not self.as_json else ():
            print(f"warning: {warning}", file=sys.stderr)
        self.last = answer
        # Numbers of references are those of one answer, and its list of them says nothing to the next.
        said = only_citing(without_own_references(answer.answer), ())
        self._keep({"role": "user", "content": question}, {"role": "assistant", "content": said})

    def command(self, line: str) -> bool:
        """Does what a line that starts with a slash says; False ends the conversation."""
        name, _, rest = line[1:].strip().partition(" ")
        commands: dict[str, Callable[[str], None]] = {
            "mode": self._mode,
            "sources": self._sources,
            "context": self._context,
            "clear": self._clear,
            "help": lambda _: print(HELP),
        }
        if name in ("quit", "exit", "q"):
            return False
        if name in commands:
            commands[name](rest.strip())
        else:
            print(f"there is no /{name}; /help lists what there is")
        print()
        return True

    def _mode(self, name: str) -> None:
        if name and name not in MODES:
            print(f"mode must be one of {', '.join(MODES)}, got {name!r}")
            return
        if name:
            self.param = replace(self.param, mode=name)
        print(f"mode {self.param.mode}")

    def _sources(self, _: str) -> None:
        references = self.last.references if self.last is not None else []
        for number, places in groupby(references, key=lambda reference: reference.number):
            for place in places:
                label = "" if place.kind == "chunk" else f" {place.label}:"
                print(f"[{number}]{label} {place.document}, characters {place.start} to {place.end}")
        if not references:
            print("the last answer cites nothing" if self.last is not None else "nothing was asked yet")

    def _context(self, _: str) -> None:
        print((self.last.context or "nothing") if self.last is not None else "nothing was asked yet")

    def _clear(self, _: str) -> None:
        self.history.clear()
        self.last = None
        if self.file is not None:
            self.file.write_text("")
        print("forgotten")

    def _keep(self, *messages: Message) -> None:
        self.history += messages
        if self.file is not None:
            with self.file.open("a", encoding="utf-8", newline="\n") as out:
                out.writelines(json.dumps(message, ensure_ascii=False) + "\n" for message in messages)


def _about(opened: OpenIndex, param: QueryParam, history: list[Message]) -> str:
    index, model = (
        opened.index,
        "no model: answers are passages" if opened.generator is None else opened.generator.model,
    )
    counts = f"{index.entities.num_rows:,} entities, {index.relationships.num_rows:,} relationships"
    before = f"\ngoing on after {len(history) // 2:,} questions" if history else ""
    return f"{index.folder.root}: {counts}; mode {param.mode}; {model}{before}"


def _lines(is_typed: bool) -> Iterator[str]:
    """What is typed, or comes in, line by line."""
    if not is_typed:
        for line in sys.stdin:
            yield line.rstrip("\n")
        return
    import contextlib

    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  (gives input() a line that can be edited, and what was typed before)
    while True:
        try:
            yield input(PROMPT)
        except EOFError:
            print()
            return
        except KeyboardInterrupt:
            print()


def _read(file: Path) -> list[Message]:
    """The messages of a conversation that was kept; raises ConfigError where the file is none."""
    if not file.exists():
        if not file.parent.is_dir():
            raise ConfigError(f"can't keep the conversation in {file}: there is no folder {file.parent}")
        return []
    messages: list[Message] = []
    for number, line in enumerate(file.read_text("utf-8", "replace").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            message = json.loads(line)
            messages.append({"role": str(message["role"]), "content": str(message["content"])})
            if message["role"] not in ("user", "assistant"):
                raise ValueError
        except (ValueError, KeyError, TypeError):
            raise ConfigError(f"{file}, line {number} is no message of a conversation") from None
    return messages
