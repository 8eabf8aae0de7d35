"""``graphmill chat``: a conversation from a pipe and on a terminal, and Markdown as it is written."""

from __future__ import annotations

import io
import json
import select
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
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
from graphmill.jobs.write_markdown import _parser, block_ends, write_markdown
from tests.engine.model_server import Answer, chat, models, serving, wait_until
from tests.jobs.command_line import APART
from tests.jobs.command_line import graphmill as graphmill_


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("chat") / "kb"
    texts = [(f"d{n}.txt", f"Ada Thornbury met Elias Wren at Saltmere Castle on day {n}.") for n in range(8)]
    graphmill.index(texts, path)
    return path


def said(kb: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return graphmill_("chat", kb, *arguments, stdin=text)


def only_ada(path: str, body: Any) -> Answer:
    """A server that answers questions about Ada, and has an error for others."""
    if path.endswith("/models"):
        return models("m", max_model_len=8192)
    if "messages" not in body:
        return Answer({"detail": "Not Found"}, status=404)
    if "Ada?" not in body["messages"][-1]["content"]:
        return Answer({"error": {"message": "no"}}, status=400)
    if not body.get("stream"):
        return chat("Elias [1].")
    return Answer(
        events=({"choices": [{"index": 0, "delta": {"content": "Elias [1]."}, "finish_reason": "stop"}]}, "[DONE]")
    )


class Talk:
    """A chat with a model that keeps what it is shown."""

    def __init__(
        self, kb: Path, replies: Sequence[Any], file: Path | None = None, is_typed: bool = True, **param: Any
    ) -> None:
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
        self.chat = Chat(self.opened, parameters, [] if file is None else _read(file), file, is_typed=is_typed)


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
    shown = capsys.readouterr()
    assert "graphmill: the model gave no answer: busy" in shown.err
    assert not shown.out.strip()
    talk.chat.ask("Who met Ada?")
    assert "(stopped)" in capsys.readouterr().err
    talk.chat.ask("Who met Ada?")
    assert len(talk.seen[-1]) == 2
    assert len(talk.chat.history) == 2


def test_an_interrupt_where_nobody_types_ends_the_conversation(kb: Path, capsys: pytest.CaptureFixture[str]) -> None:
    talk = Talk(kb, [KeyboardInterrupt, KeyboardInterrupt], is_typed=False)
    with pytest.raises(KeyboardInterrupt):
        talk.chat.ask("Who met Ada?")
    talk.chat.as_json, talk.chat.param = True, graphmill.QueryParam(mode="naive")
    with pytest.raises(KeyboardInterrupt):
        talk.chat.ask("Who met Ada?")
    assert "stopped" not in "".join(capsys.readouterr())


def test_a_question_that_finds_nothing_is_not_kept(
    kb: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "talk.jsonl"
    talk = Talk(kb, ["Hello."], file, max_total_tokens=60)
    talk.chat.ask("Who met Ada?")
    shown = capsys.readouterr()
    assert "[no-context]" in shown.out
    assert "nothing was found" in shown.err
    assert not talk.chat.history
    assert not file.exists()
    talk.chat.param = graphmill.QueryParam(mode="bypass", stream=True)
    talk.chat.ask("Good day")
    assert [message["content"] for message in talk.chat.history] == ["Good day", "Hello."]
    assert "nothing was found" not in capsys.readouterr().err


def test_an_answer_that_was_kept_says_so(kb: Path, capsys: pytest.CaptureFixture[str]) -> None:
    talk = Talk(kb, ["Elias [1]."])
    ask = talk.opened.query

    def query(question: str, param: graphmill.QueryParam) -> Any:
        answer = ask(question, param)
        answer.cached = "Who was it that Ada met?"
        return answer

    talk.opened.query = query  # type: ignore[method-assign,assignment]
    talk.chat.ask("Who met Ada?")
    shown = capsys.readouterr()
    assert shown.err == "from the answers that are kept, to: Who was it that Ada met?\n"
    assert "kept" not in shown.out


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


TURN = '{"role": "user", "content": "Who?"}\n{"role": "assistant", "content": "Elias."}\n'


@pytest.mark.parametrize(
    ("content", "left"),
    [
        (TURN[:-1], TURN),
        (TURN + TURN[:20], TURN),
        (TURN + TURN[:5], TURN),
        (TURN + TURN[:60], TURN),
        (TURN + TURN[:-5], TURN),
        (TURN[:20], ""),
        (TURN[:-5], ""),
        (TURN + "\n", TURN + "\n"),
    ],
)
def test_a_conversation_that_was_cut_off_is_gone_on_with_from_its_last_whole_turn(
    kb: Path, tmp_path: Path, content: str, left: str
) -> None:
    file = tmp_path / "talk.jsonl"
    file.write_text(content)
    talk = Talk(kb, ["He is a surveyor."], file)
    assert file.read_text() == left
    talk.chat.ask("And who is that?")
    assert [message["role"] for message in _read(file)] == ["user", "assistant"] * (2 if left else 1)
    assert _read(file) == talk.chat.history


@pytest.mark.parametrize("content", ["notes", TURN + "notes", TURN + '{"role": "system"}', "[1]\n" + TURN])
def test_what_is_no_conversation_is_left_as_it_is(tmp_path: Path, content: str) -> None:
    file = tmp_path / "talk.jsonl"
    file.write_text(content)
    with pytest.raises(ConfigError, match="is no message"):
        _read(file)
    assert file.read_text() == content


def test_text_that_utf_8_has_no_bytes_for_does_not_end_a_conversation(kb: Path, tmp_path: Path) -> None:
    file = tmp_path / "talk.jsonl"
    Talk(kb, [], file).chat._keep({"role": "user", "content": "a\ud83db"})
    assert _read(file) == [{"role": "user", "content": "a?b"}]


def test_a_conversation_is_one_processs_at_a_time(kb: Path, tmp_path: Path) -> None:
    file, link = tmp_path / "talk.jsonl", tmp_path / "link.jsonl"
    file.write_text(before := TURN + TURN[:20])
    link.symlink_to(file)
    with subprocess.Popen(
        [*APART, "chat", str(kb), "--mode", "naive", "--conversation", str(link)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as first:
        assert first.stdin is not None
        wait_until(lambda: file.read_text() == TURN)  # what was cut off is taken off
        file.write_text(before)
        second = said(kb, "Who met Ada?", "--conversation", str(file))
        assert second.returncode == 2
        assert second.stderr == (
            f"graphmill: another process is writing the conversation to {file}; wait for it, or name another file\n"
        )
        assert not second.stdout
        assert file.read_text() == before
        first.stdin.close()
        assert first.wait(60) == 0
    assert said(kb, "", "--conversation", str(file)).returncode == 0
    assert file.read_text() == TURN
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.jsonl", "talk.jsonl"]
    nowhere = said(kb, "", "--conversation", str(tmp_path / "nowhere" / "talk.jsonl"))
    assert nowhere.returncode == 2
    assert "nowhere/talk.jsonl: No such file or directory" in nowhere.stderr


def test_errors_do_not_stand_among_the_answers_and_the_exit_code_says_when_there_is_nothing_else(kb: Path) -> None:
    with serving(only_ada) as server:
        arguments = ("--mode", "naive", "--llm", server.url)
        some = said(kb, "Who met Ada?\nWho else?\n", *arguments)
        none = said(kb, "Who else?\nAnd who?\n", *arguments)
        json_none = said(kb, "Who else?\n", *arguments, "--json")
    assert some.returncode == 0
    assert "Elias" in some.stdout
    assert "400" in some.stderr
    assert "graphmill:" not in some.stdout
    assert none.returncode == json_none.returncode == 3
    assert not none.stdout.strip()
    assert "400" in json.loads(json_none.stdout)["error"]


def test_another_program_gets_each_line_before_it_sends_the_next_one(kb: Path) -> None:
    with serving(only_ada) as server:
        command = [*APART, "chat", str(kb), "--mode", "naive", "--json", "--llm", server.url]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            for question in ("Who else?", "Who met Ada?"):
                process.stdin.write(question + "\n")
                process.stdin.flush()
                is_there, _, _ = select.select([process.stdout], [], [], 60)
                if not is_there:
                    process.kill()
                assert is_there, f"no line for {question!r}"
                assert json.loads(process.stdout.readline())["question"] == question
            process.stdin.close()
            assert process.wait(60) == 0


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
    "- a\n\n  ```\n  x\n\n  y\n  ```\n\n- b\n\n", "1. a\n   ~~~py\n   x\n\n\n   y\n   ~~~\n", "- ```\n  x\n\n  y\n\n",
    "```\n~~~\n\nx\n```\n\n", "~~~\n```\n\n~~~\n", "````\n```\n\nx\n````\n", "```x``` is\n\ncode.\n\n",
    "```\nx\n\n``` y\n\n```\n", "> ```\n> x\n\n", "<p>\n\n</p>\n\n", "| a | b |\n|---|---|\n| c | d |\n\n",
    "    x\n\n    y\n\n",
]  # fmt: skip
LINES = "|a|  b|    c|```|````|~~~|  ```|   ~~~ py|```x```|- a|- ```|2. b|> ```|---".split("|")


def parts_of(text: str) -> list[str]:
    """The text's blocks, each taken off as soon as the text that has come shows that it is finished."""
    place, parts = 0, []
    for come in range(len(text) + 1):
        for end in block_ends(text[place:come]):
            parts.append(text[place : place + end])
            place += end
    return [*parts, text[place:]]


@given(st.lists(st.sampled_from(BLOCKS), max_size=6) | st.lists(st.sampled_from(LINES).map("{}\n".format), max_size=12))
def test_blocks_that_are_shown_one_by_one_are_those_of_the_whole_text(blocks: list[str]) -> None:
    text = "".join(blocks)
    parts = parts_of(text)
    assert "".join(parts) == text
    assert "".join(map(_parser().render, parts)) == _parser().render(text)


@pytest.mark.parametrize(
    "block",
    [
        "- a\n\n  ```\n  x\n\n  y\n  ```\n- b",
        "```\n~~~\n\nx\n```",
        "1. a\n   ~~~py\n   x\n\n   y\n   ~~~",
        "````\n```\n\nx\n````",
        "```\nx\n\n``` y\n\n```",
    ],
)
def test_code_is_never_torn(block: str) -> None:
    assert parts_of(f"One.\n\n{block}\n\nThe end.\n") == ["One.\n\n", f"{block}\n\n", "The end.\n"]


def test_what_looks_like_code_and_is_none_ends_as_any_paragraph() -> None:
    assert parts_of("```x``` is\n\ncode.\n\nThe end.\n") == ["```x``` is\n\n", "code.\n\n", "The end.\n"]


def rendered(*pieces: str) -> str:
    screen = io.StringIO()
    write_markdown(pieces, Console(file=screen, width=100))
    return screen.getvalue()


def test_no_word_of_an_answer_is_lost_on_a_terminal() -> None:
    shown = rendered("Put it into <folder> as Vec<String>.\n\n<details>\ninside\n</details>\n\n", "[1]: report.txt\n")
    for words in ("Put it into <folder> as Vec<String>.", "<details>", "inside", "</details>", "[1]: report.txt"):
        assert words in shown


def test_what_a_model_writes_does_not_steer_the_terminal() -> None:
    shown = rendered("a\x1b]0;title\x07b\n\n```\n\x1b[2Jc\x9b31m", "d\n```\n\n`\x1b[1m` &#27;[1m &#x9b;1m")
    assert not {"\x1b", "\x07", "\x9b"} & set(shown)
    for words in ("a]0;titleb", "[2Jc31md"):
        assert words in shown


def test_nothing_draws_beside_what_prints() -> None:
    """A second thread that does would now and then take away lines that are there for good."""
    before = set(threading.enumerate())  # of which some, of other tests' servers, may be about to end
    seen: list[set[threading.Thread]] = []

    def pieces() -> Iterator[str]:
        for piece in ("One.\n\n", "Two.\n\n", "Three."):
            yield piece
            seen.append(set(threading.enumerate()) - before)

    write_markdown(pieces(), Console(file=io.StringIO(), width=60, force_terminal=True))
    assert seen == [set()] * 3


def test_commands_do_not_steer_the_terminal_and_leave_a_pipe_the_text(
    kb: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = Talk(kb, ["Elias [1]."])
    talk.chat.ask("Who met Ada?")
    assert talk.chat.last is not None
    talk.chat.last.context = "a\x1b[2Jb"
    talk.chat.last.references[0] = replace(talk.chat.last.references[0], document="\x1b[1md.txt")
    capsys.readouterr()
    for command in ("/context", "/sources"):
        talk.chat.command(command)
    assert capsys.readouterr().out.count("\x1b") == 2
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    for command in ("/context", "/sources"):
        talk.chat.command(command)
    assert "\x1b" not in (shown := capsys.readouterr().out)
    assert "a[2Jb" in shown
    assert "[1] [1md.txt" in shown


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
