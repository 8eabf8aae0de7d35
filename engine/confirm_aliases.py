"""Puts pairs of names to the model, many in one prompt, and reads its yes and no of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from graphmill.engine.converse import Conversation, converse
from graphmill.engine.models import Generator, Message, Request, Tokenizer
from graphmill.engine.read_object import find_objects
from graphmill.engine.strip_thoughts import strip_thoughts
from graphmill.engine.templates import fill, load_templates

CHAT_TOKENS = 64
"""Set aside for what the model's chat template puts round a prompt."""
ANSWER_TOKENS = 24
"""Of the reply, for each pair."""
AGAIN_TOKENS = 512
"""Set aside for asking again."""
MIN_ROOM = 1024
"""Tokens that have to be left for pairs."""
QUOTED = 400
"""Characters of an unreadable reply that are shown to the model when it is asked again."""

ANSWERS_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "answers": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"pair": {"type": "integer"}, "same": {"type": "boolean"}},
                "required": ["pair", "same"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["answers"],
    "additionalProperties": False,
}
"""JSON schema of a reply: an answer for each pair, by its number."""

_KEYS = (("confirm", ("pairs",)), ("again", ("missing",)))
_SAID = {
    "yes": True,
    "true": True,
    "same": True,
    "是": True,
    "no": False,
    "false": False,
    "different": False,
    "否": False,
}


class Question(NamedTuple):
    """Two things, each as a JSON object that describes it, and the language of the prompt, "en" or "zh"."""

    first: str
    second: str
    language: str


def instructions(prompts: str, language: str) -> str:
    """All that shapes an answer beside the pair: for the hash under which it is kept."""
    return load_templates(prompts, language, _KEYS)["confirm"]


def confirm(
    questions: Sequence[Question], generator: Generator, tokenizer: Tokenizer, prompts: str, batch_size: int
) -> list[bool | None]:
    """For each question whether the model takes the two for one; None where it could not be had to answer.

    ``batch_size`` pairs go into a prompt, fewer where the model's context is small. What a reply leaves open is asked
    again once.
    """
    verdicts: list[bool | None] = [None] * len(questions)
    for rows, answers in converse(_conversations(questions, generator, tokenizer, prompts, batch_size), generator):
        for place, row in enumerate(rows, 1):
            verdicts[row] = answers.get(place)
    return verdicts


def read_answers(reply: str, num_pairs: int) -> dict[int, bool]:
    """The answers of a reply, by the number of the pair, from 1; a pair that is answered both ways has none."""
    said: dict[int, set[bool]] = {}
    for found in find_objects(strip_thoughts(reply, '"')[0]):
        for number, same in _said(found.value):
            if same is not None and 1 <= number <= num_pairs:
                said.setdefault(number, set()).add(same)
    return {number: answers.pop() for number, answers in said.items() if len(answers) == 1}


def _said(value: Mapping[str, Any]) -> Iterator[tuple[int, bool | None]]:
    answers = value.get("answers", [value])
    if isinstance(answers, Mapping):  # {"1": true, "2": false}
        answers = [{"pair": pair, "same": same} for pair, same in answers.items()]
    for answer in answers if isinstance(answers, list) else []:
        if isinstance(answer, Mapping):
            yield _number(answer.get("pair")), _verdict(answer.get("same"))


def _number(value: Any) -> int:
    text = str(value).strip()
    return int(text) if text.isdecimal() and len(text) < 10 and not isinstance(value, bool) else 0


def _verdict(value: Any) -> bool | None:
    return value if isinstance(value, bool) else _SAID.get(str(value).strip().strip(".。\"'").casefold())


def _conversations(
    questions: Sequence[Question], generator: Generator, tokenizer: Tokenizer, prompts: str, batch_size: int
) -> Iterator[Conversation[tuple[list[int], dict[int, bool]]]]:
    """A conversation for each batch of questions of one language, which are numbered from 1 in each."""
    number = 0
    for language in sorted({question.language for question in questions}):
        templates = load_templates(prompts, language, _KEYS)
        reply_tokens = ANSWER_TOKENS * batch_size + 64
        taken = int(tokenizer.count([templates["confirm"]])[0]) + reply_tokens + CHAT_TOKENS + AGAIN_TOKENS
        room = generator.context_tokens - taken
        if room < MIN_ROOM:
            raise ValueError(
                f"the instructions and reply for aliases take {taken} tokens of the model's context of "
                f"{generator.context_tokens}, which leaves {max(room, 0)} for pairs where {MIN_ROOM} are needed; lower "
                f"aliases.batch_size={batch_size} or take a model with a longer context"
            )
        rows = [row for row, question in enumerate(questions) if question.language == language]
        for batch in _batches(rows, questions, tokenizer, room, batch_size):
            lines = [_line(place, questions[row]) for place, row in enumerate(batch, 1)]
            yield _ask(number, batch, lines, templates, reply_tokens)
            number += 1


def _batches(
    rows: list[int], questions: Sequence[Question], tokenizer: Tokenizer, room: int, batch_size: int
) -> Iterator[list[int]]:
    """The rows in batches within both limits; a pair that is too long on its own is in none."""
    tokens = tokenizer.count([_line(batch_size, questions[row]) for row in rows]) + 1
    batch: list[int] = []
    used = 0
    for row, count in zip(rows, tokens.tolist(), strict=True):
        if count > room:
            continue
        if batch and (len(batch) == batch_size or used + count > room):
            yield batch
            batch, used = [], 0
        batch.append(row)
        used += count
    if batch:
        yield batch


def _line(place: int, question: Question) -> str:
    return f'{{"pair":{place},"first":{question.first},"second":{question.second}}}'


def _ask(
    number: int, rows: list[int], lines: Sequence[str], templates: Mapping[str, str], max_tokens: int
) -> Conversation[tuple[list[int], dict[int, bool]]]:
    """Asks about a batch, and once more where the reply leaves pairs open; the answers by place in the batch."""
    asked: list[Message] = [{"role": "user", "content": fill(templates["confirm"], {"pairs": "\n".join(lines)})}]
    reply = yield Request(f"aliases/{number}", asked, max_tokens, 0.0, ANSWERS_SCHEMA)
    answers = {} if reply.error else read_answers(reply.text, len(rows))
    if len(answers) < len(rows) and not reply.error:
        missing = [str(place) for place in range(1, len(rows) + 1) if place not in answers]
        asked = [
            *asked,
            {"role": "assistant", "content": reply.text[:QUOTED] or "{}"},
            {"role": "user", "content": fill(templates["again"], {"missing": ", ".join(missing)})},
        ]
        reply = yield Request(f"aliases/{number}", asked, max_tokens, 0.0, ANSWERS_SCHEMA)
        answers = ({} if reply.error else read_answers(reply.text, len(rows))) | answers
    return rows, answers
