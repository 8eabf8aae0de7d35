"""The descriptions of a thing to one: joined where they are few and short, else summarised by the model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from graphmill.engine.converse import Conversation, converse
from graphmill.engine.models import Generator, Reply, Request, Tokenizer
from graphmill.engine.names import without_invisible
from graphmill.engine.prompt_language import language_name, language_of_text
from graphmill.engine.sentences import cut_to_tokens, join_distinct, split_to_tokens
from graphmill.engine.strip_thoughts import strip_thoughts
from graphmill.engine.templates import fill, load_templates
from graphmill.kernels.pack import pack_bins

CHAT_TOKENS = 64
"""Set aside for what the model's chat template puts round a prompt."""
MIN_NOTE_TOKENS = 64
MAX_NAME = 200
MAX_TOKEN_CHARS = 40
"""More than the tokens of any text have on average."""

Place: TypeAlias = tuple[int, int]
"""Number of a thing and of one of its groups."""

_KEYS = (("summarise", ("name", "notes", "language", "max_tokens", "max_words")),)
_WORDS_PER_TOKEN = {"en": 0.7, "zh": 1.0}


@dataclass(frozen=True)
class SummariseConfig:
    """When descriptions are summarised, and to what length."""

    max_tokens: int = 500
    """Longest description; more than this is summarised."""
    max_fragments: int = 8
    """Most descriptions of one thing that are simply joined."""
    context_tokens: int = 8000
    """Longest prompt, instructions included; less where the model's context is smaller."""
    temperature: float = 0.0
    prompts: str = "summarise"
    """Name of the packaged prompts, or path of a TOML file."""

    def __post_init__(self) -> None:
        for name, minimum in (("max_tokens", 1), ("max_fragments", 1), ("context_tokens", 1024)):
            if getattr(self, name) < minimum:
                raise ValueError(f"summarise.{name} must be at least {minimum}, got {getattr(self, name)}")
        if not 0 <= self.temperature <= 2:
            raise ValueError(f"summarise.temperature must be in [0, 2], got {self.temperature}")


@dataclass
class Summaries:
    """One description a thing, and what they took."""

    descriptions: list[str]
    num_summarised: int = 0
    """Things whose descriptions went to the model."""
    num_calls: int = 0
    num_rounds: int = 0
    num_failed: int = 0
    """Things for which a call failed, so that joined and cut descriptions stand in."""


@dataclass
class Drafts:
    """What descriptions are before any model was asked."""

    descriptions: list[str]
    """One a thing, of at most ``max_tokens`` tokens; empty where there are so many that the model will be asked."""
    unsettled: list[int]
    """Rows of the things that a model should be asked about."""


@dataclass(slots=True)
class _Thing:
    """A thing that the model works on: its notes become fewer and fewer."""

    row: int
    name: str
    language: str
    notes: list[str]
    lines: list[str] = field(default_factory=list)
    """The notes as the prompt lists them."""
    failed: bool = False
    before: str = ""
    after: str = ""
    room: int = 0
    """Tokens that the prompt leaves for notes."""
    groups: list[list[int]] = field(default_factory=list)
    """Rows of ``notes`` that go into one prompt each; a group of one stays as it is, unless it is the only one."""


def draft(
    things: Sequence[tuple[str, Sequence[str]]], tokenizer: Tokenizer, config: SummariseConfig, has_model: bool = True
) -> Drafts:
    """The descriptions of each (name, distinct descriptions) pair joined, each sentence once, and cut at a sentence's
    end where they are too long."""
    # What is sure to go to the model is joined only where the model fails.
    sure = [has_model and len(descriptions) > config.max_fragments for _, descriptions in things]
    joined = ["" if goes else _joined(notes, config) for goes, (_, notes) in zip(sure, things, strict=True)]
    short = cut_to_tokens(joined, config.max_tokens, tokenizer)
    return Drafts(short, [row for row, text in enumerate(joined) if sure[row] or short[row] != text])


def summarise(
    things: Sequence[tuple[str, Sequence[str]]],
    generator: Generator | None,
    tokenizer: Tokenizer,
    config: SummariseConfig,
    language: str | Sequence[str] = "auto",
    drafts: Drafts | None = None,
) -> Summaries:
    """One description of each (name, distinct descriptions) pair, of at most ``config.max_tokens`` tokens.

    Descriptions within both limits are joined, each sentence once. The others are summarised by the model; where they
    exceed a prompt, group by group and then the groups' summaries again, each round one batch over all things. Without
    a model, and where it fails, they are joined and cut at a sentence's end.

    language  of the descriptions, one for all or one a thing: a code or name, or "auto", which tells Chinese by its
              script and else asks for the language of the notes
    drafts    of the same things, where they are made already
    """
    if drafts is None:
        drafts = draft(things, tokenizer, config, generator is not None)
    result = Summaries(list(drafts.descriptions))
    if generator is None:
        return result
    open_things = []
    for row in drafts.unsettled:
        name, descriptions = things[row]
        wanted = language if isinstance(language, str) else language[row]
        known = language_of_text(" ".join(descriptions)) if wanted in ("", "auto") else wanted
        open_things.append(_Thing(row, name[:MAX_NAME], known, list(descriptions)))
    result.num_summarised = len(open_things)
    _measure(open_things, generator, tokenizer, config)
    while open_things:
        result.num_rounds += 1
        result.num_calls += _one_round(open_things, generator, tokenizer, config)
        for thing in open_things:
            if len(thing.notes) == 1:
                result.descriptions[thing.row] = thing.notes[0]
                result.num_failed += thing.failed
        open_things = [thing for thing in open_things if len(thing.notes) > 1]
    return result


def _measure(things: list[_Thing], generator: Generator, tokenizer: Tokenizer, config: SummariseConfig) -> None:
    """Works out the prompt round each thing's notes, and splits notes that are longer than a prompt can take."""
    limit = min(config.context_tokens, generator.context_tokens - _reply_tokens(config))
    lengths: dict[str, int] = {}
    for thing in things:
        thing.before, thing.after = _instructions(thing, config)
        if thing.language not in lengths:
            # Instructions differ by the name alone, of which a byte is at most a token.
            lengths[thing.language] = int(tokenizer.count([thing.before + thing.after])[0])
        count = lengths[thing.language] + len(thing.name.encode())
        thing.room = limit - CHAT_TOKENS - count
        if _note_limit(thing, config) < min(MIN_NOTE_TOKENS, config.max_tokens):
            raise ValueError(
                f"a summary's instructions take {count} tokens and its reply up to {_reply_tokens(config)}, "
                f"too many for summarise.context_tokens={config.context_tokens} and the model's context of "
                f"{generator.context_tokens}; raise them or lower summarise.max_tokens={config.max_tokens}"
            )
        longest = [note for note in thing.notes if len(note.encode()) > thing.room // 3]
        if longest and tokenizer.count(longest).max() > thing.room // 3:
            thing.notes = [p for note in thing.notes for p in split_to_tokens(note, thing.room // 3, tokenizer)]


def _one_round(things: list[_Thing], generator: Generator, tokenizer: Tokenizer, config: SummariseConfig) -> int:
    """Puts every group of notes to the model, all things at once, and leaves one note a group. Returns the calls."""
    long = []
    for thing in things:
        thing.lines = [_line(note) for note in thing.notes]
        thing.groups = [list(range(len(thing.notes)))]
        # So many bytes are at most so many tokens: one prompt takes all.
        if len("\n".join(thing.lines).encode()) >= thing.room:
            long.append(thing)
    counts = tokenizer.count([line for thing in long for line in thing.lines]) + 1
    ends = np.cumsum([len(thing.notes) for thing in long])
    for thing, tokens in zip(long, np.split(counts, ends[:-1]), strict=False):
        bins = pack_bins(tokens, thing.room)
        thing.groups = [rows.tolist() for rows in np.split(np.arange(len(bins)), np.flatnonzero(np.diff(bins)) + 1)]
    replies = dict(converse(_questions(things, config), generator))
    texts = {at: _text(reply) for at, reply in replies.items()}
    for number, thing in enumerate(things):
        limit = config.max_tokens if len(thing.groups) == 1 else _note_limit(thing, config)
        made = []
        for group, rows in enumerate(thing.groups):
            text = texts.get((number, group))
            thing.failed |= text == ""
            most = MAX_TOKEN_CHARS * config.max_tokens
            made.append(text or join_distinct([thing.notes[row] for row in rows], most))
        cut = cut_to_tokens(made, limit, tokenizer)
        # A group that wasn't asked about is a single note, which stays whole.
        thing.notes = [c if (number, group) in texts else made[group] for group, c in enumerate(cut)]
    return len(replies)


def _joined(descriptions: Sequence[str], config: SummariseConfig) -> str:
    return join_distinct(descriptions, MAX_TOKEN_CHARS * config.max_tokens) if descriptions else ""


def _text(reply: Reply) -> str:
    return "" if reply.error else without_invisible(strip_thoughts(reply.text)[0]).strip()


def _questions(things: list[_Thing], config: SummariseConfig) -> Iterator[Conversation[tuple[Place, Reply]]]:
    for number, thing in enumerate(things):
        for group, rows in enumerate(thing.groups):
            if len(rows) > 1 or len(thing.groups) == 1:
                prompt = thing.before + "\n".join(thing.lines[row] for row in rows) + thing.after
                yield _ask((number, group), thing.row, prompt, config)


def _ask(at: Place, row: int, prompt: str, config: SummariseConfig) -> Conversation[tuple[Place, Reply]]:
    message = {"role": "user", "content": prompt}
    reply = yield Request(f"summary/{row}/{at[1]}", [message], _reply_tokens(config), config.temperature)
    return at, reply


def _instructions(thing: _Thing, config: SummariseConfig) -> tuple[str, str]:
    """What stands before the notes in a prompt, and what after them."""
    templates = load_templates(config.prompts, thing.language, _KEYS)
    values = {
        "name": thing.name,
        "language": language_name(thing.language, templates["language"]),
        "max_tokens": str(config.max_tokens),
        "max_words": str(max(1, round(config.max_tokens * _WORDS_PER_TOKEN.get(templates["language"], 0.7)))),
    }
    before, _, after = templates["summarise"].partition("{notes}")
    return fill(before, values), fill(after, values)


def _line(note: str) -> str:
    return "- " + " ".join(note.split())


def _note_limit(thing: _Thing, config: SummariseConfig) -> int:
    """Longest summary of a group: a prompt takes at least three, so that every round makes fewer of them."""
    return min(config.max_tokens, thing.room // 3)


def _reply_tokens(config: SummariseConfig) -> int:
    # Twice the limit: a summary that runs over is cut at a sentence's end instead of in the middle.
    return 2 * config.max_tokens
