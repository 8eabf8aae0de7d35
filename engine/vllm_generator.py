"""A language model that graphmill runs itself: vLLM engines in processes of their own, each kept full."""

from __future__ import annotations

import json
import os
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

from graphmill.engine.model_files import file_prints
from graphmill.engine.models import Pieces, Reply, Request, Tokenizer
from graphmill.engine.vllm_process import EngineGone, VLLMProcess, untried

DEFAULTS: Mapping[str, Any] = {
    # All prompts of a profile begin alike, and a gleaning round repeats the whole of the round before.
    "enable_prefix_caching": True,
    # A follow-up goes ahead of new texts, while its prefix is still in the cache.
    "scheduling_policy": "priority",
    "seed": 0,
}
"""Engine arguments that differ from vLLM's own defaults, or that we rely on."""
NO_THINKING: Mapping[str, Any] = {"enable_thinking": False}
"""Chat template variables: what a model thinks costs tokens, and the reader throws it away."""
REMEMBERED = 4
"""Conversations for each request in flight whose replica is remembered."""
QUEUED = 2
"""Requests held for each that the engine can run, so that it never waits for the next."""
DEFAULT_NUM_SEQS = 1024
"""vLLM's own max_num_seqs for offline work on GPUs of 70 GB and more, where it isn't set; smaller ones take fewer."""
Arriving: TypeAlias = "queue.SimpleQueue[tuple[int, dict[str, Any] | None]]"
"""Replies of a replica, by its number, or None when it has ended."""
_OURS = frozenset(["temperature", "max_tokens", "n", "output_kind", "structured_outputs"])
SHAPING = (
    "dtype", "quantization", "quantization_config", "kv_cache_dtype", "revision", "code_revision", "tokenizer",
    "tokenizer_mode", "tokenizer_revision", "hf_overrides", "hf_config_path", "load_format", "seed", "max_model_len",
    "generation_config", "override_generation_config", "model_impl", "speculative_config", "structured_outputs_config",
    "logits_processors",
)  # fmt: skip
"""Engine arguments that shape replies; the others only say how fast they come."""


@dataclass(frozen=True)
class VLLMOptions:
    """How vLLM is run; ``args`` are its own engine arguments by its own names."""

    args: Mapping[str, Any] = field(default_factory=dict)
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=lambda: dict(NO_THINKING))
    python: str | None = None
    """Python of the environment that holds vLLM; None for this one."""
    sampling: Mapping[str, Any] = field(default_factory=dict)
    """Sampling parameters of every request by vLLM's names, such as top_p or repetition_penalty."""
    replicas: int = 1
    """Engines beside each other, each on its own GPUs, tensor_parallel_size of them."""


class VLLMGenerator:
    """Chat completions from vLLM, as they finish. The engine is loaded with the first request, and anew after ``rest``.

    model  a folder with the model's files, or its name on the hub
    warn   is told what a person should know
    note   is told of what takes long
    Requests of one conversation, whose ids differ after the last slash only, go to the same replica, whose cache holds
    their prefix; a new one goes to the replica that has least to do.
    """

    enforces_schema = True

    def __init__(
        self,
        model: str,
        options: VLLMOptions | None = None,
        *,
        context_tokens: int | None = None,
        max_in_flight: int | None = None,
        warn: Callable[[str], None] = lambda message: None,
        note: Callable[[str], None] = lambda message: None,
    ) -> None:
        self.options = options or VLLMOptions()
        if self.options.replicas < 1:
            raise ValueError(f"llm.replicas must be at least 1, got {self.options.replicas}")
        if taken := _OURS & self.options.sampling.keys():
            raise ValueError(f"llm.sampling can't set {', '.join(sorted(taken))}: each stage has its own")
        self._args = {**DEFAULTS, **self.options.args, "model": model}
        if context_tokens is not None:
            self._args["max_model_len"] = context_tokens
        wanted = self._args.get("max_model_len")
        if wanted is not None and not (isinstance(wanted, int) and wanted > 0):
            raise ValueError(f"llm.args.max_model_len must be a number of tokens above 0, got {wanted!r}")
        self._warn, self._note = warn, note
        self._processes: list[VLLMProcess] = []
        self._starting: list[VLLMProcess] = []
        self._replies: Arriving = queue.SimpleQueue()
        """What is for collect(), of the processes of one load."""
        self._streams: dict[str, queue.SimpleQueue[dict[str, Any] | None]] = {}
        """Of each open stream by the request's own id, what came of it."""
        self._is_closed = False
        self._open: dict[str, tuple[str, int]] = {}
        """Of each open request by its own id: the caller's id and the replica."""
        self._replica_of: OrderedDict[str, int] = OrderedDict()
        self._load: list[int] = []
        self._counting = threading.RLock()  # a collection of garbage may close a reader, and abort, at any place
        self._loading = threading.Lock()
        self._numbers = count(1)
        self.starts = 0
        """How often the engine was loaded."""
        self.model = _identity(model, self._args, self.options)
        self.max_in_flight = max_in_flight or (
            QUEUED * int(self._args.get("max_num_seqs") or DEFAULT_NUM_SEQS) * self.options.replicas
        )
        self.tokenizer: Tokenizer | None = _tokenizer(str(self._args.get("tokenizer") or model))
        known = _context_of(Path(model)) if "max_model_len" not in self._args else int(self._args["max_model_len"])
        # A model that is not on disk is only known once it is loaded.
        self.context_tokens: int = known or int(self._start()["max_model_len"])

    def __repr__(self) -> str:
        return f"VLLMGenerator({self.model!r})"

    def load(self) -> None:
        """Loads the engines, if they aren't, and waits for them."""
        with self._loading:
            if not self._processes:
                self._start()

    def submit(self, request: Request) -> None:
        """Passes the request to an engine, which it joins at once."""
        self._send(request)

    def stream(self, request: Request) -> Pieces:
        """The reply as it is written; raises EngineGone when the engine has ended."""
        written: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        own_id, process = self._send(request, written)
        try:
            while True:
                found = written.get()
                if found is None:
                    raise self._gone(process)
                if "piece" not in found:
                    del found["id"]
                    self._forget(own_id)
                    return Reply(request.id, **found)
                yield found["piece"]
        finally:
            if self._forget(own_id):  # the reader has had enough
                process.send({"abort": own_id})

    def _send(
        self, request: Request, written: queue.SimpleQueue[dict[str, Any] | None] | None = None
    ) -> tuple[str, VLLMProcess]:
        """Passes a request on, its reply into ``written`` if that is given; returns the id that it has in its engine,
        and this. Raises EngineGone where another thread ends the engines meanwhile."""
        self.load()
        own_id = str(next(self._numbers))
        # A name of OpenAI's protocol; here replies are held to a schema, if to anything.
        options = {name: value for name, value in request.options.items() if name != "response_format"}
        with self._counting:
            if not self._processes:
                raise self._gone(None)
            replica = self._replica(request)
            process = self._processes[replica]
            self._load[replica] += 1
            self._open[own_id] = request.id, replica
            if written is not None:
                self._streams[own_id] = written
        process.send(
            {
                "id": own_id,
                "messages": [dict(message) for message in request.messages],
                "max_tokens": request.max_tokens,
                "temperature": request.temperature,
                "schema": request.schema,
                "options": {**self.options.sampling, **options},
                "priority": -_round(request.id) if self._args["scheduling_policy"] == "priority" else 0,
                "stream": written is not None,
            }
        )
        return own_id, process

    def _replica(self, request: Request) -> int:
        """Where a request goes: to where its conversation is, or else where there is least to do."""
        conversation = "/".join(request.id.split("/")[:2])
        replica = self._replica_of.get(conversation, self._load.index(min(self._load)))
        if len(self._processes) > 1:
            self._replica_of[conversation] = replica
            if len(self._replica_of) > REMEMBERED * self.max_in_flight:
                self._replica_of.popitem(last=False)
        return replica

    def collect(self) -> Sequence[Reply]:
        """Replies that have come in, after waiting for the first; raises EngineGone when an engine has ended."""
        with self._counting:  # first: another thread may end these engines and load others
            processes, arriving = self._processes, self._replies
        if not self._open:
            if self._is_closed:
                raise EngineGone(f"{self!r} was closed")
            raise RuntimeError("collect() was called with no request open")
        replies: list[Reply] = []
        while not replies or not arriving.empty():
            replica, found = arriving.get()
            if found is None:
                if replies:
                    arriving.put((replica, None))  # what did come is handed out first
                    break
                raise self._gone(processes[replica] if processes else None)
            own_id = found.pop("id")
            request_id, _ = self._open.get(own_id, ("", -1))
            if self._forget(own_id):  # else it was taken back
                replies.append(Reply(request_id, **found))
        return replies

    def abort(self, request_ids: Set[str]) -> None:
        """Takes requests out of their engines' batches, and forgets replies to them that have come."""
        processes = self._processes
        for own_id, (request_id, replica) in list(self._open.items()):
            is_meant = request_id in request_ids and own_id not in self._streams
            if is_meant and self._forget(own_id) and replica < len(processes):
                processes[replica].send({"abort": own_id})

    def _deliver(self, arriving: Arriving, replica: int, found: dict[str, Any] | None) -> None:
        """Sorts what comes from a replica, in a thread of its own: to its stream, or to whoever collects."""
        if found is None:
            with self._counting:
                of_this_load = list(self._streams.items()) if arriving is self._replies else []
            for own_id, written in of_this_load:
                if self._open.get(own_id, ("", -1))[1] == replica:
                    written.put(None)
            arriving.put((replica, None))
        elif (stream := self._streams.get(found["id"])) is not None:
            stream.put(found)
        elif found["id"] in self._open:  # else its reader has had enough
            arriving.put((replica, found))

    def _forget(self, own_id: str) -> bool:
        """Takes a request off the open ones; False where it was not among them."""
        with self._counting:
            self._streams.pop(own_id, None)
            _, replica = self._open.pop(own_id, ("", -1))
            if replica >= 0:
                self._load[replica] -= 1
        return replica >= 0

    def _gone(self, process: VLLMProcess | None) -> EngineGone:
        """The error of an engine that ended; the next request loads it anew."""
        if process is None or process not in self._processes:
            return EngineGone("vLLM was ended while a reply was being written")
        words = process.last_words()
        self.rest()
        return EngineGone(f"{words}\nthe same command goes on from here")

    def rest(self) -> None:
        """Ends the engines, which gives their memory back; the next request loads them again."""
        with self._counting:  # what is sent from now on finds no engine, or those of the next load
            processes = [*self._processes, *self._starting]
            self._processes, self._starting = [], []
            streams, self._streams = self._streams, {}
            self._open, self._replica_of = {}, OrderedDict()
        for written in streams.values():
            written.put(None)
        _end(processes)

    def close(self) -> None:
        """Ends the engines; none is loaded again. Doing it twice is fine."""
        self._is_closed = True
        self.rest()

    def _start(self) -> dict[str, Any]:
        """Loads the engines, all at once, and waits for them. Returns what the first says of itself."""
        setup = {"task": "generate", "args": self._args, "chat_template_kwargs": self.options.chat_template_kwargs}
        options = self.options
        starting: list[VLLMProcess] = []
        arriving: Arriving = queue.SimpleQueue()
        with self._counting:
            if self._is_closed:
                raise RuntimeError(f"{self!r} is closed")
            self._starting = starting
        width = int(self._args.get("tensor_parallel_size", 1)) * int(self._args.get("pipeline_parallel_size", 1))

        self.starts += 1
        self._note(f"vLLM is loading {self._args['model']}")
        begin = time.monotonic()
        try:
            for replica, devices in enumerate(_devices(options.replicas, width)):
                deliver = partial(self._deliver, arriving, replica)
                starting.append(VLLMProcess(setup, deliver, options.python, devices))
            facts = [process.wait_ready() for process in starting]
            with self._counting:  # who sends finds all that belongs to a load, or nothing of it
                if self._starting is not starting:
                    raise EngineGone("another thread has ended them")
                self._processes, self._starting = starting, []
                self._replies, self._load = arriving, [0] * options.replicas
        except BaseException as error:
            _end(starting)  # rest() may have come before some of them were there
            if self._starting is not starting and isinstance(error, Exception):
                raise EngineGone("vLLM was ended while it was being loaded") from None
            raise
        self._note(f"vLLM {facts[0]['version']} has loaded it in {time.monotonic() - begin:.0f} s")
        if self.starts == 1 and (warning := untried(facts[0]["version"])):
            self._warn(warning)
        return facts[0]


def _end(processes: Sequence[VLLMProcess]) -> None:
    for process in processes:
        process.hang_up()
    for process in processes:
        process.close()


def _round(request_id: str) -> int:
    """Which round of its conversation a request is: the third part of its id ("extract/TEXT_ID/2"), 0 without one."""
    parts = request_id.split("/")
    return int(parts[2]) if len(parts) > 2 and parts[2].isdigit() else 0


def _devices(replicas: int, width: int) -> list[str | None]:
    """CUDA_VISIBLE_DEVICES of each replica: ``width`` each of those that are shown to this process."""
    if replicas == 1:
        return [None]
    shown = [device.strip() for device in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if device.strip()]
    if shown and len(shown) < replicas * width:
        raise ValueError(
            f"llm.replicas={replicas} of {width} GPUs each need {replicas * width}, "
            f"CUDA_VISIBLE_DEVICES shows {len(shown)}"
        )
    devices = shown or [str(number) for number in range(replicas * width)]
    return [",".join(devices[replica * width : (replica + 1) * width]) for replica in range(replicas)]


def _identity(model: str, arguments: Mapping[str, Any], options: VLLMOptions) -> str:
    """The model's name with a hash of what shapes its replies: the same model in another folder keeps its replies."""
    folder = Path(model)
    files = file_prints(folder) if folder.is_dir() else [model]
    shaping = {name: arguments[name] for name in SHAPING if name in arguments}
    how = [dict(options.chat_template_kwargs), dict(options.sampling)]
    print_ = json.dumps([files, shaping, how], sort_keys=True, default=str)
    name = folder.resolve().name if folder.is_dir() else model
    return f"{name}@{blake2b(print_.encode(), digest_size=5).hexdigest()}"


def _context_of(folder: Path) -> int | None:
    """The context that a model's config.json tells; None where there is none to read."""
    try:
        document = json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError):
        return None
    for part in (document, document.get("text_config") or {}):
        if isinstance(part.get("max_position_embeddings"), int):
            return int(part["max_position_embeddings"])
    return None


def _tokenizer(model: str) -> Tokenizer | None:
    """The model's own tokenizer, where it is on disk."""
    from graphmill.engine.tokenizers import HFTokenizer

    return HFTokenizer(model) if (Path(model) / "tokenizer.json").is_file() else None
