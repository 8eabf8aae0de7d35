"""From a corpus to an index, and from an index to answers: what graphmill.index and graphmill.open do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from graphmill.engine.answer import Answer
from graphmill.engine.answer_cache import AnswerCache
from graphmill.engine.claim_prompts import load_claim_prompts
from graphmill.engine.config import Config, ConfigError
from graphmill.engine.confirm_aliases import instructions
from graphmill.engine.documents import Document, Skipped, corpus_fingerprint, from_iterable, read_corpus
from graphmill.engine.index import Index
from graphmill.engine.interrupts import interrupts_wait
from graphmill.engine.metered import MeteredGenerator
from graphmill.engine.models import Embedder, Generator, Tokenizer
from graphmill.engine.open_models import open_embedder, open_generator, open_tokenizer
from graphmill.engine.pipeline import build
from graphmill.engine.profiles import load_profile
from graphmill.engine.progress import Progress, Silent
from graphmill.engine.query import query
from graphmill.engine.query_each import Asked, query_each
from graphmill.engine.query_param import QueryParam
from graphmill.engine.replies import ReplyStore, StoredGenerator
from graphmill.engine.rerank import Reranker, as_reranker, open_reranker
from graphmill.engine.run import Models, Run
from graphmill.engine.run_folder import RunFolder
from graphmill.engine.shared_generator import SharedGenerator
from graphmill.engine.vector_index import check_index
from graphmill.engine.vllm_generator import VLLMOptions
from graphmill.kernels.backend import backend


def build_folder(
    corpus: Path, index: Path, config: Config, progress: Progress, retry_failures: bool = False
) -> dict[str, Any]:
    """Indexes a file or folder; the models are those that the config names."""
    if not corpus.exists():
        raise ConfigError(f"no corpus at {corpus}: there is no such file or folder")
    stamp = corpus_fingerprint(corpus, exclude=[index])
    read = _reader(corpus, index, config)
    return _build(read, stamp, str(corpus), index, config, progress, retry_failures=retry_failures)


def _reader(corpus: Path, index: Path, config: Config) -> Callable[[], Iterable[Document | Skipped]]:
    columns = config.corpus
    return lambda: read_corpus(
        corpus,
        text_column=columns.text_column,
        id_column=columns.id_column,
        title_column=columns.title_column,
        exclude=[index],
    )


def index(
    documents: Iterable[Any] | Path | str,
    path: Path | str,
    generator: Generator | None = None,
    embedder: Embedder | None = None,
    tokenizer: Tokenizer | None = None,
    config: Config | None = None,
    progress: Progress | None = None,
    *,
    retry_failures: bool = False,
) -> dict[str, Any]:
    """Indexes documents into a folder and returns the summary of the run.

    documents  a path of a file or folder, or an iterable, which need not fit in memory, of texts, (path, text) pairs,
               or mappings with "text" and any of "path" and "title"
    generator, embedder, tokenizer
               any object that satisfies the protocol of graphmill.engine.models; by default those the config names:
               no generator, which leaves the reading to the phrase finder, and the packaged embedder
    retry_failures
               put texts that failed to the model itself again, whatever replies are kept of them
    """
    config, progress = config or Config(), progress or Silent()
    given = (generator, embedder, tokenizer)
    if isinstance(documents, str | Path):
        corpus = Path(documents)
        if not corpus.exists():
            raise ConfigError(f"no corpus at {corpus}: there is no such file or folder")
        stamp = corpus_fingerprint(corpus, exclude=[Path(path)])
        read, name = _reader(corpus, Path(path), config), str(corpus)
        return _build(read, stamp, name, Path(path), config, progress, *given, retry_failures=retry_failures)
    return _build(
        lambda: from_iterable(documents),
        None,
        "the documents given",
        Path(path),
        config,
        progress,
        *given,
        retry_failures=retry_failures,
    )


def _build(
    read: Callable[[], Iterable[Document | Skipped]],
    stamp: str | None,
    name: str,
    path: Path,
    config: Config,
    progress: Progress,
    generator: Generator | None = None,
    embedder: Embedder | None = None,
    tokenizer: Tokenizer | None = None,
    retry_failures: bool = False,
) -> dict[str, Any]:
    with interrupts_wait():  # it imports RAPIDS
        chosen = backend(config.device)
    try:
        check_index(config.search, chosen)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    if config.extract.profile != "auto":
        try:
            load_profile(config.extract.profile, "en", entity_types=config.extract.entity_types)
        except ValueError as error:
            raise ConfigError(f"extract.profile: {error}") from error
    if config.claims.enabled:
        try:
            load_claim_prompts(config.claims.prompts, "en")
        except ValueError as error:
            raise ConfigError(f"claims.prompts: {error}") from error
    if config.aliases.enabled:
        try:
            instructions(config.aliases.prompts, "en")
        except ValueError as error:
            raise ConfigError(f"aliases.prompts: {error}") from error
    with ExitStack() as stack:
        folder = stack.enter_context(RunFolder.lock(path))
        for file in folder.damaged:
            progress.warn(f"{path / file} is missing or broken; its table is made again")
        models = _models(stack, config, generator, embedder, tokenizer, progress)
        meter = None
        if models.generator is not None:
            meter = MeteredGenerator(models.generator)
            reader: Generator = meter
            if config.llm.store_replies:
                reader = StoredGenerator(meter, stack.enter_context(ReplyStore(path / "replies")))
            models = Models(reader, models.embedder, models.tokenizer)
        run = Run(folder, models, config, chosen, progress, meter, retry_failures)
        return build(run, read, stamp, name)


def _models(
    stack: ExitStack,
    config: Config,
    generator: Generator | None,
    embedder: Embedder | None,
    tokenizer: Tokenizer | None,
    progress: Progress | None = None,
) -> Models:
    """The models given, and those of the config in place of the others; the latter are closed with the stack."""
    progress = progress or Silent()
    if generator is None:
        generator = open_generator(
            config.llm.model,
            max_in_flight=config.llm.max_in_flight,
            timeout_s=config.llm.timeout_s,
            max_retries=config.llm.max_retries,
            context_tokens=config.llm.context_tokens,
            api_key_env=config.llm.api_key_env,
            vllm=VLLMOptions(
                config.llm.args,
                config.llm.chat_template_kwargs,
                config.llm.python,
                config.llm.sampling,
                config.llm.replicas,
            ),
            warn=progress.warn,
            note=progress.note,
        )
        if generator is not None:
            stack.callback(generator.close)
    if embedder is None:
        embedder = open_embedder(
            config.embedder.model,
            device=config.device,
            api_key_env=config.llm.api_key_env,
            vllm_args=config.embedder.args,
            vllm_python=config.llm.python,
            warn=progress.warn,
        )
        stack.callback(embedder.close)
    if tokenizer is None:
        try:
            tokenizer = open_tokenizer(config.tokenizer, generator, embedder)
        except ValueError as error:
            raise ConfigError(f"tokenizer: {error}") from error
    return Models(generator, embedder, tokenizer)


class OpenIndex:
    """An index opened for questions. Its tables and vectors stay in memory until it is closed."""

    def __init__(
        self,
        index: Index,
        generator: Generator | None,
        stack: ExitStack,
        reranker: Reranker | None = None,
        cache: AnswerCache | None = None,
    ) -> None:
        self.index, self.generator, self.reranker, self.cache, self._stack = index, generator, reranker, cache, stack
        self._shared = None if generator is None else SharedGenerator(generator)
        self._is_closed = False

    def __repr__(self) -> str:
        model = "no model" if self.generator is None else self.generator.model
        return f"<{'closed ' if self._is_closed else ''}index {self.index.folder.root}, {model}>"

    def query(self, question: str, param: QueryParam | None = None) -> Answer:
        """Answers a question; see QueryParam for what can be set."""
        if not isinstance(question, str) or not isinstance(param, QueryParam | None):
            raise TypeError(
                f"query() takes a text and a QueryParam, got {type(question).__name__}, {type(param).__name__}"
            )
        return query(self.index, question, param or QueryParam(), self.caller(), self.reranker, self.cache)

    def query_each(self, questions: Iterable[Asked]) -> Iterator[tuple[int, Answer]]:
        """Answers many questions at the model's full speed: yields each one's number and answer, as they come.

        questions  texts, and pairs of a text and how it is asked
        An answer with an ``error`` is that of a question which failed; the others go on.
        """
        return query_each(self.index, questions, self.caller(), self.reranker, self.cache)

    def caller(self) -> Generator | None:
        """The model, for one question or batch: others may be asked at the same time, in this thread or another.

        Raises ValueError once the index is closed.
        """
        if self._is_closed:
            raise ValueError(f"the index {self.index.folder.root} is closed")
        return None if self._shared is None else self._shared.caller()

    def close(self) -> None:
        """Lets go of the models that were opened for this index, which answers no question from then on."""
        self._is_closed = True
        self._stack.close()

    def __enter__(self) -> OpenIndex:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_index(
    path: Path | str,
    config: Config | None = None,
    generator: Generator | None = None,
    embedder: Embedder | None = None,
    tokenizer: Tokenizer | None = None,
    progress: Progress | None = None,
    reranker: Reranker | Callable[[str, list[str]], Any] | None = None,
) -> OpenIndex:
    """Opens an index for questions. Without a generator, given or configured, answers are ranked passages.

    progress  is told of what takes long, such as loading a model
    reranker  puts chunks in order for a question: a Reranker, or a function of the question and the texts that gives a
              score for each
    """
    config = config or Config()
    folder = RunFolder.open(Path(path))
    with ExitStack() as stack:
        models = _models(stack, config, generator, embedder, tokenizer, progress)
        chosen = as_reranker(reranker)
        if chosen is None:
            try:
                chosen = open_reranker(
                    config.reranker.model,
                    api_key_env=config.llm.api_key_env,
                    vllm_args=config.reranker.args,
                    vllm_python=config.llm.python,
                    template=config.reranker.template,
                    warn=(progress or Silent()).warn,
                )
            except ValueError as error:
                raise ConfigError(f"reranker.model: {error}") from error
            if chosen is not None:
                stack.callback(chosen.close)
        with interrupts_wait():  # it imports RAPIDS
            device = backend(config.device)
        opened = Index(folder, models.embedder, models.tokenizer, device)
        cache = None
        if config.cache.answers != "off" and models.generator is not None:
            cache = stack.enter_context(AnswerCache(folder.root / "answers", config.cache, folder.state))
        return OpenIndex(opened, models.generator, stack.pop_all(), chosen, cache)
    raise AssertionError("unreachable: an exit stack lets exceptions pass")
