"""A model server for tests that does as it is told: it answers, misbehaves, counts what is in flight, and dies."""

from __future__ import annotations

import json
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any


@dataclass(frozen=True)
class Answer:
    """What the server sends: a status, a body (JSON unless it is text), headers, after a wait; or it just hangs up."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    wait_s: float = 0.0
    hang_up: bool = False
    events: tuple[Any, ...] = ()
    """Sent one by one, in place of the body, as a stream: JSON unless it is text."""
    cut_off: bool = False
    """Hangs up after the events."""


Script = Callable[[str, Any], Answer]


class ModelServer:
    """Answers by ``script(path, body)``; keeps every request, its headers, and what came of them.

    One that is not up has its port, which nobody else gets then, and refuses connections until it is started.
    """

    def __init__(self, script: Script, port: int = 0, is_up: bool = True) -> None:
        self.script = script
        self.requests: list[tuple[str, Any, dict[str, str]]] = []
        self.max_in_flight = self._in_flight = 0
        self.num_hung_up = 0
        """Requests whose client was gone before their answer had been waited for."""
        self.lock = threading.Lock()
        self._httpd = _Httpd(("127.0.0.1", port), _handler(self))
        self.port = self._httpd.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        self._is_up = False
        if is_up:
            self.start()

    def start(self) -> None:
        self._is_up = True
        self._httpd.server_activate()
        threading.Thread(target=self._httpd.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def paths(self) -> list[str]:
        return [path for path, _, _ in self.requests]

    def stop(self) -> None:
        if self._is_up:
            self._httpd.shutdown()
        self._httpd.server_close()

    def go_down(self) -> ModelServer:
        """Ends it, and returns one in its place that has its port and is not up."""
        self.stop()
        return ModelServer(self.script, self.port, is_up=False)

    def answer(self, path: str, body: Any, headers: dict[str, str], client: socket.socket) -> Answer:
        with self.lock:
            self.requests.append((path, body, headers))
            self._in_flight += 1
            self.max_in_flight = max(self.max_in_flight, self._in_flight)
        try:
            answer = self.script(path, body)
            if answer.wait_s and select.select([client], [], [], answer.wait_s)[0]:
                with self.lock:
                    self.num_hung_up += 1
            return answer
        finally:
            with self.lock:
                self._in_flight -= 1


class _Httpd(ThreadingHTTPServer):
    request_queue_size = 512
    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(address, handler, bind_and_activate=False)
        self.server_bind()

    def server_bind(self) -> None:
        """Asks no name server for the name of this machine, as HTTPServer does."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is no news."""


def _handler(server: ModelServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._respond(None)

        def do_POST(self) -> None:
            self._respond(json.loads(self.rfile.read(int(self.headers["content-length"]))))

        def _respond(self, body: Any) -> None:
            answer = server.answer(self.path, body, {k.lower(): v for k, v in self.headers.items()}, self.connection)
            if answer.hang_up:
                self.close_connection = True
                self.connection.shutdown(2)
                return
            if answer.events:
                self._stream(answer)
                return
            content = answer.body if isinstance(answer.body, str) else json.dumps(answer.body)
            data = content.encode()
            self.send_response(answer.status)
            kind = "text/html" if isinstance(answer.body, str) else "application/json"
            for name, value in {"content-type": kind, "content-length": str(len(data)), **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def _stream(self, answer: Answer) -> None:
            self.send_response(answer.status)
            self.send_header("content-type", "text/event-stream; charset=utf-8")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for event in answer.events:
                data = event if isinstance(event, str) else f"data: {json.dumps(event, ensure_ascii=False)}\n\n"
                encoded = data.encode()
                self.wfile.write(b"%x\r\n%s\r\n" % (len(encoded), encoded))
                self.wfile.flush()
            if answer.cut_off:
                self.close_connection = True
                self.connection.shutdown(2)
            else:
                self.wfile.write(b"0\r\n\r\n")

        def log_message(self, *args: Any) -> None: ...

    return Handler


@contextmanager
def refusing() -> Iterator[str]:
    """The address of nothing, as long as the block lives: no other process can come to listen there."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}/v1"


@contextmanager
def serving(script: Script) -> Iterator[ModelServer]:
    """A server that lives as long as the block."""
    server = ModelServer(script)
    try:
        yield server
    finally:
        server.stop()


def wait_until(is_so: Callable[[], bool]) -> None:
    """Waits for what happens in another thread or process; fails after two minutes."""
    deadline = time.monotonic() + 120
    while not is_so():
        assert time.monotonic() < deadline, "it has not come to that"
        time.sleep(0.005)


def chat(text: str | None, finish_reason: str = "stop", **message: Any) -> Answer:
    """A chat completion."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": finish_reason}
    return Answer({"choices": [choice], "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}})


def models(*names: str, **fields: Any) -> Answer:
    """The list of models."""
    return Answer({"object": "list", "data": [{"id": name, "object": "model", **fields} for name in names]})


def chat_events(*texts: str, finish_reason: str = "stop") -> tuple[Any, ...]:
    """A chat completion as the events of a stream."""
    deltas = [{"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]} for text in texts]
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": finish_reason}]}
    usage = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}}
    return (*deltas, end, usage, "data: [DONE]\n\n")
