"""``graphmill chat``: a conversation from a pipe and on a terminal, and Markdown as it is written."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import graphmill
from graphmill.engine.config import ConfigError
from graphmill.engine.function_models import FunctionGenerator
from graphmill.engine.models import Message, Reply, Request
from graphmill.jobs.chat import Chat, _read
from graphmill.jobs.write_markdown import _block_ends, write_markdown


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("chat") / "kb"
    texts = [(f"d{n}.txt", f"Ada Thornbury met Elias Wren at Saltmere Castle on day {n}.") for n in range(8)]
    graphmill.index(texts, path)
    return path


def said(kb: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from graphmill.jobs.cli import main; main()", "chat", str(kb), *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=120)


class Talk:
    """A chat with a model that keeps what it is shown."""

    def __init__(self, kb: Path, replies: Sequence[Any], file: Path | None = None, **param: Any) -> None:
        self.seen: list[Sequence[Message]] = []
        answers = iter(replies)

        def reply(request: Request) -> str | Reply:
            self.seen.append(request.messages)
            answer = next(answers)
            if isinstance(answer, type):
                raise answer
            return answer

        self.opened = graphmill.open(kb, None, FunctionGenerator(reply))
        parameters = graphmill.QueryParam(**{"mode": "naive", "stream": True, **param})
        self.chat = Chat(self.opened, parameters, [] if file is None else _read(file), file, as_json=False)


def test_a_question_is_put_with_those_before_it_and_without_their_citations(kb: Path) -> None:
    talk = Talk(kb, ["Elias Wren met her [1].", "On day 3 [2]."])
    talk.chat.ask("Who met Ada?")
    talk.chat.ask("And when?")
    assert [message["content"] for message in talk.seen[1][1:-1]] == ["Who met Ada?", "Elias Wren met her."]
    assert "Ada" in str(talk.chat.last and talk.chat.last.context)


def test_a_failed_and_a_stopped_answer_leave_the_conversation_as_it_was(
    kb: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    talk = Talk(kb, [Reply("", error="busy"), KeyboardInterrupt, "Elias [1]."])
    talk.chat.ask("Who met Ada?")
    assert "graphmill: the model gave no answer: busy" in capsys.readouterr().out
    talk.chat.ask("Who met Ada?")
    assert "(stopped)" in capsys.readouterr().out
    talk.chat.ask("Who met Ada?")
    assert len(talk.seen[-1]) == 2
    assert len(talk.chat.history) == 2


def test_commands_show_the_sources_change_the_mode_and_forget(kb: Path, capsys: pytest.CaptureFixture[str]) -> None:
    talk = Talk(kb, ["Elias Wren [1].", "Again [1]."])
    assert talk.chat.command("/sources")
    assert "nothing was asked yet" in capsys.readouterr().out
    talk.chat.ask("Who met Ada?")
    assert talk.chat.command("/sources")
    assert "[1] d" in (shown := capsys.readouterr().out)
    assert "characters 0 to" in shown
    assert talk.chat.command("/mode nope")
    assert "mode must be one of naive" in capsys.readouterr().out
    assert talk.chat.command("/mode local")
    assert talk.chat.param.mode == "local"
    assert talk.chat.command("/clear")
    talk.chat.ask("Who?")
    assert len(talk.seen[-1]) == 2
    assert talk.chat.command("/unheard")
    assert "there is no /unheard" in capsys.readouterr().out
    assert not talk.chat.command("/quit")


def test_a_conversation_in_a_file_is_gone_on_with(kb: Path, tmp_path: Path) -> None:
    file = tmp_path / "talk.jsonl"
    Talk(kb, ["Elias Wren [1]."], file).chat.ask("Who met Ada?")
    later = Talk(kb, ["On day 3."], file)
    later.chat.ask("When?")
    assert [message["content"] for message in later.seen[0][1:-1]] == ["Who met Ada?", "Elias Wren."]
    assert len(_read(file)) == 4
    later.chat.command("/clear")
    assert not _read(file)
    file.write_text('{"role": "system", "content": "x"}\n')
    with pytest.raises(ConfigError, match="line 1 is no message"):
        _read(file)
    with pytest.raises(ConfigError, match="there is no folder"):
        _read(tmp_path / "nowhere" / "talk.jsonl")


def test_lines_of_a_pipe_are_questions_and_commands(kb: Path) -> None:
    done = said(kb, "Who met Ada Thornbury?\n\n/mode local\n/quit\nnever asked\n", "--mode", "naive")
    assert done.returncode == 0, done.stderr
    assert "> Ada Thornbury met Elias Wren" in done.stdout
    assert "mode local" in done.stdout
    assert "/help lists" not in done.stdout


def test_with_json_each_line_has_its_document_and_a_slash_is_no_command(kb: Path) -> None:
    done = said(kb, "Who met Ada Thornbury?\n/what is this?\n", "--json")
    first, second = map(json.loads, done.stdout.splitlines())
    assert first["answer"].startswith("> Ada")
    assert second["question"] == "/what is this?"


BLOCKS = [
    "# Head\n\n", "A para\nof two.\n\n", "- a\n\n- b\n\n  more\n\n", "```\nx\n\ny\n```\n\n", "1. a\n\n2. b\n\n", "\n",
]  # fmt: skip


@given(st.lists(st.sampled_from(BLOCKS), max_size=8))
def test_blocks_end_where_a_new_one_begins_and_nothing_is_torn(blocks: list[str]) -> None:
    text = "".join(blocks)
    place, parts = 0, []
    for end in _block_ends(text):
        parts.append(text[place : place + end])
        place += end
    parts.append(text[place:])
    assert "".join(parts) == text
    for part in parts[:-1]:
        assert part.count("```") % 2 == 0
        assert part.strip()
        assert not part.startswith(("  ", "- b", "2. b"))


def test_a_terminal_gets_rendered_blocks_once_each_and_a_pipe_the_text(capsys: pytest.CaptureFixture[str]) -> None:
    text = "# Head\n\nOne **bold** word.\n\n- a\n- b\n\n```\ncode\n\nmore\n```\n\nThe end."
    screen = io.StringIO()
    pieces = [text[start : start + 3] for start in range(0, len(text), 3)]
    assert write_markdown(pieces, Console(file=screen, width=60)) == text
    shown = screen.getvalue()
    assert "**" not in shown
    for once in ("Head", "bold", "• a", "more", "The end."):
        assert shown.count(once) == 1
    assert write_markdown(pieces) == text
    assert capsys.readouterr().out == text + "\n"
