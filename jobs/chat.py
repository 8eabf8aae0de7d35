"""``graphmill chat``: a conversation with an index."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
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
from graphmill.engine.writer_lock import WriterLock
from graphmill.jobs.errors import explain
from graphmill.jobs.progress import PlainProgress
from graphmill.jobs.show import show, show_json, show_notes
from graphmill.jobs.sign_of_life import sign_of_life
from graphmill.jobs.write_markdown import write_markdown

PROMPT = "› "
CUT = b'{"role": '
"""What a message begins with in the file: the last line is one that was cut off only if it does so too."""
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

    Exit code 3 when nothing was typed and every question failed.

    conversation  a JSONL file of messages: it is gone on with, and what is said is added, by one process at a time
    """
    try:
        parameters = QueryParam(**param, stream=not as_json)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    is_typed = sys.stdin.isatty() and not as_json
    progress = PlainProgress(quiet=as_json)
    with ExitStack() as stack:
        history: list[Message] = []
        if conversation is not None:
            stack.enter_context(WriterLock(conversation, "conversation"))
            history = _read(conversation)
        opened = stack.enter_context(open_index(index, load_config(config_file, settings), progress=progress))
        chat = Chat(opened, parameters, history, conversation, as_json, is_typed)
        if is_typed:
            show(f"{_about(opened, parameters, history)}\n/help lists what can be typed beside questions.\n")
        for line in _lines(is_typed):
            if not line.strip():
                continue
            if line.startswith("/") and not as_json:
                if not chat.command(line):
                    break
            else:
                chat.ask(line.strip())
    return 3 if chat.num_failed and chat.num_failed == chat.num_asked and not is_typed else 0


class Chat:
    """A conversation that is under way."""

    def __init__(
        self,
        opened: OpenIndex,
        param: QueryParam,
        history: list[Message],
        file: Path | None = None,
        as_json: bool = False,
        is_typed: bool = False,
    ) -> None:
        self.opened, self.param, self.history, self.file = opened, param, history, file
        self.as_json, self.is_typed = as_json, is_typed
        self.num_asked = self.num_failed = 0
        self.last: Answer | None = None

    def ask(self, question: str) -> None:
        """Shows the answer, and keeps it for the questions after it, unless it fails, is stopped, or says that nothing
        was found.

        Where nobody types, an interrupt ends the conversation.
        """
        self.num_asked += 1
        try:
            with sign_of_life(self.opened.generator is not None) as until_first:
                answer = self.opened.query(question, replace(self.param, conversation_history=tuple(self.history)))
                if not self.as_json:
                    write_markdown(until_first(answer))
            if self.as_json:
                show_json(answer.document())
            else:
                show("")
        except KeyboardInterrupt:
            if not self.is_typed:
                raise
            show("\n(stopped)\n", file=sys.stderr)
        except BrokenPipeError:  # our reader is gone, and no question failed
            raise
        except Exception as error:
            self.num_failed += 1
            self._tell(question, error)
        else:
            if not self.as_json:
                show_notes(answer)
            self._take(answer)

    def _tell(self, question: str, error: Exception) -> None:
        """Says why a question has no answer; raises an error that we do not know."""
        message, _ = explain(error)
        if message is None:
            raise error
        if self.as_json:
            show_json({"question": question, "error": message})
        else:
            show(f"graphmill: {message}\n", file=sys.stderr)

    def _take(self, answer: Answer) -> None:
        self.last = answer
        is_found = bool(answer.context) or answer.mode == "bypass"
        if is_found:
            # Numbers of references are those of one answer, and its list of them says nothing to the next.
            said = only_citing(without_own_references(answer.answer), ())
            self._keep({"role": "user", "content": answer.question}, {"role": "assistant", "content": said})
        elif not self.as_json:
            show("nothing was found, so the conversation goes on as if this had not been asked", file=sys.stderr)

    def command(self, line: str) -> bool:
        """Does what a line that starts with a slash says; False ends the conversation."""
        name, _, rest = line[1:].strip().partition(" ")
        commands: dict[str, Callable[[str], None]] = {
            "mode": self._mode,
            "sources": self._sources,
            "context": self._context,
            "clear": self._clear,
            "help": lambda _: show(HELP),
        }
        if name in ("quit", "exit", "q"):
            return False
        if name in commands:
            commands[name](rest.strip())
        else:
            show(f"there is no /{name}; /help lists what there is")
        show("")
        return True

    def _mode(self, name: str) -> None:
        if name and name not in MODES:
            show(f"mode must be one of {', '.join(MODES)}, got {name!r}")
            return
        if name:
            self.param = replace(self.param, mode=name)
        show(f"mode {self.param.mode}")

    def _sources(self, _: str) -> None:
        references = self.last.references if self.last is not None else []
        for number, places in groupby(references, key=lambda reference: reference.number):
            for place in places:
                label = "" if place.kind == "chunk" else f" {place.label}:"
                show(f"[{number}]{label} {place.document}, characters {place.start} to {place.end}")
        if not references:
            show("the last answer cites nothing" if self.last is not None else "nothing was asked yet")

    def _context(self, _: str) -> None:
        show((self.last.context or "nothing") if self.last is not None else "nothing was asked yet")

    def _clear(self, _: str) -> None:
        self.history.clear()
        self.last = None
        if self.file is not None:
            self.file.write_text("")
        show("forgotten")

    def _keep(self, *messages: Message) -> None:
        self.history += messages
        if self.file is not None:
            # A lone surrogate, which UTF-8 has no bytes for, becomes a question mark.
            with self.file.open("a", encoding="utf-8", errors="replace", newline="\n") as out:
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
            show("")
            return
        except KeyboardInterrupt:
            show("")


def _read(file: Path) -> list[Message]:
    """The messages of a conversation that was kept; raises ConfigError where the file is none.

    What was cut off at its end, by a kill as it was written, is taken off the file, with the question it answers.
    """
    if not file.exists():
        return []
    content = file.read_bytes()
    begin = content.rfind(b"\n") + 1
    lines, last = content[:begin].split(b"\n"), content[begin:]
    messages = [_message(line, file, number) for number, line in enumerate(lines, start=1) if line.strip()]
    if last[: len(CUT)] == CUT[: len(last)] and last and not _is_json(last):
        if messages and messages[-1]["role"] == "user":
            messages.pop()
            begin = content[:begin].rstrip().rfind(b"\n") + 1
        os.truncate(file, begin)
    elif last.strip():
        messages.append(_message(last, file, len(lines)))
        with file.open("ab") as out:
            out.write(b"\n")
    return messages


def _message(line: bytes, file: Path, number: int) -> Message:
    try:
        message = json.loads(line.decode("utf-8", "replace"))
        if message["role"] not in ("user", "assistant"):
            raise ValueError
        return {"role": str(message["role"]), "content": str(message["content"])}
    except (ValueError, KeyError, TypeError):
        raise ConfigError(f"{file}, line {number} is no message of a conversation") from None


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True
