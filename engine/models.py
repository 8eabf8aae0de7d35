"""What the engine asks of a language model, an embedding model and a tokenizer.

Three protocols and the records that cross them. A stage never knows which implementation it was given.
"""

from __future__ import annotations

from collections.abc import Generator as Coroutine
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Message = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Request:
    """One completion to be made: chat messages in, at most ``max_tokens`` tokens out."""

    id: str
    messages: Sequence[Message]
    max_tokens: int = 4096
    temperature: float = 0.0
    schema: Mapping[str, Any] | None = None
    """JSON schema that the reply has to satisfy, where the generator can enforce one."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further sampling options, passed on under the server's own names."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What came of the request with the same id: a text, or an error that further tries did not mend."""

    id: str
    text: str = ""
    finish_reason: str | None = None
    """"stop", "length", or None where it is not known."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    error: str | None = None
    """Why there is no text; None when there is."""
    cached_tokens: int = 0
    """Of the prompt's, those that came out of the model's prefix cache, where it tells."""


@runtime_checkable
class Tokenizer(Protocol):
    """Counts and places tokens. Special-token text in the input is ordinary text."""

    name: str

    def count(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Number of tokens of each text, int64 [n]; no start or end tokens are added."""

    def spans(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """Character spans [start, end) of each text's tokens, int64 [num_tokens, 2], in order."""


@runtime_checkable
class Generator(Protocol):
    """A language model that is kept full: requests go in as they come, replies come out as they finish.

    ``submit`` never blocks; a caller holds at most ``max_in_flight`` requests open. A failed request is a Reply with
    ``error`` set, never an exception; an exception means that the engine itself is gone.
    """

    model: str
    context_tokens: int
    max_in_flight: int
    tokenizer: Tokenizer | None

    def submit(self, request: Request) -> None: ...

    def collect(self) -> Sequence[Reply]:
        """Waits until at least one submitted request has finished, and returns all that have."""

    def close(self) -> None: ...


Pieces: TypeAlias = Coroutine[str, None, Reply]
"""A reply that is still being written: yields its text as it comes and returns the whole; closing it takes the request
back."""


@runtime_checkable
class StreamingGenerator(Protocol):
    """A Generator that can give a reply in pieces too."""

    def stream(self, request: Request) -> Pieces: ...


@runtime_checkable
class AbortingGenerator(Protocol):
    """A Generator that can end the work on requests before their replies are there."""

    def abort(self, request_ids: Set[str]) -> None:
        """Takes back those of the open requests that have these ids: ``collect`` gives no reply to them any more."""


@runtime_checkable
class Embedder(Protocol):
    """Maps texts to vectors. A row that can't be embedded comes back as NaN or zeros; the caller deals with it."""

    model: str
    tokenizer: Tokenizer
    languages: frozenset[str] | None
    """ISO 639-1 codes of the languages the model knows; None for any."""

    @property
    def dimension(self) -> int: ...

    @property
    def max_tokens(self) -> int:
        """Longest text in tokens, start and end tokens not counted; longer texts are never passed in."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """float32 [n, dimension], one row a text."""

    def close(self) -> None: ...
