"""An OpenAI-compatible server: where it is, the key it wants, and many requests in flight, each tried again.

Requests run on an event loop in a background thread, so that the code that asks stays plain.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import random
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

from graphmill.engine.background import Background
from graphmill.engine.events import is_event_stream, read_events
from graphmill.engine.retry import back_off_s, error_text, is_retried, retry_after_s, shorten

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
CONNECT_TIMEOUT_S = 10.0


class ServerError(RuntimeError):
    """A model server can't be reached, or turns every request away; the message names it."""


class RequestFailed(Exception):  # noqa: N818  (it is what became of a request, as data)
    """One request failed for good.

    unreachable   nothing answered
    status, body  what the server answered; the body as it came, which may repeat secrets: the message is for showing
    """

    def __init__(self, message: str, unreachable: bool = False, status: int | None = None, body: str = "") -> None:
        super().__init__(message)
        self.unreachable, self.status, self.body = unreachable, status, body


class Server:
    """Sends JSON to a server, at most ``max_in_flight`` requests at a time, and reads JSON back.

    url          http(s), as far as what comes before /chat/completions; without a path /v1 is taken. A user and a
                 password in it are sent, and shown nowhere
    api_key_env  environment variable of the bearer token, read at each request
    timeout_s    from a request's start to its answer, tries and waits between them included
    max_retries  further tries after connection errors, 408, 409, 425, 429 and 5xx; waits double from first_wait_s and
                 come on top of what a Retry-After asks for
    """

    def __init__(
        self,
        url: str,
        *,
        api_key_env: str = "GRAPHMILL_API_KEY",
        max_in_flight: int = 256,
        timeout_s: float = 600.0,
        max_retries: int = 5,
        first_wait_s: float = 1.0,
    ) -> None:
        parts = urlsplit(url.strip())
        host = parts.netloc.rpartition("@")[2]
        path = parts.path.rstrip("/") or "/v1"
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"a server's URL must be http://HOST[:PORT][/PATH], got {_without_user(url)!r}")
        if parts.query or parts.fragment:
            raise ValueError(f"a server's URL must end with its path, got {parts.scheme}://{host}{parts.path} and more")
        self.url = urlunsplit((parts.scheme, host, path, "", ""))
        """Where requests go, with neither user nor password; safe to show."""
        self.root = self.url.removesuffix("/v1")
        """Where vLLM keeps what is not part of OpenAI's interface."""
        self.timeout_s, self.max_retries, self.first_wait_s = timeout_s, max_retries, first_wait_s
        self.api_key_env = api_key_env
        user = (unquote(parts.username or ""), unquote(parts.password or ""))
        self._user = user if any(user) else None
        self._is_local = _is_loopback(parts.hostname)
        self.slots = asyncio.Semaphore(max_in_flight)
        """Each request holds one, from its first try to its last."""
        self._background = Background(f"the client of {self.url}")
        self._client: httpx.AsyncClient | None = None

    def __repr__(self) -> str:
        return f"Server({self.url!r})"

    def connect_again(self, *, max_in_flight: int, timeout_s: float) -> Server:
        """A second connection to the same server, with limits of its own."""
        other = Server(
            self.url,
            api_key_env=self.api_key_env,
            max_in_flight=max_in_flight,
            timeout_s=timeout_s,
            max_retries=self.max_retries,
            first_wait_s=self.first_wait_s,
        )
        other._user = self._user
        return other

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Runs a coroutine that awaits ``request`` in the background."""
        return self._background.start(work)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine that awaits ``request``, and waits for its result."""
        return self._background.run(work)

    def close(self) -> None:
        """Cancels what is in flight. Doing it twice is fine."""
        self._background.close()

    async def request(
        self,
        method: str,
        url: str,
        body: Any = None,
        *,
        max_retries: int | None = None,
        timeout_s: float | None = None,
        deliver: Callable[[Any], None] | None = None,
        is_final: Callable[[RequestFailed], bool] = lambda failure: False,
        has_slot: bool = False,
    ) -> Any:
        """The JSON that the server answers with; raises RequestFailed when all tries have failed.

        deliver   takes the JSON of each event, where the server answers with a stream of them; then None is returned.
                  Once it has begun, nothing is tried again.
        is_final  which failures are not tried again either
        has_slot  the caller holds one of ``slots``, for several requests of which only one is out at a time
        """
        content = None if body is None else json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        retries = self.max_retries if max_retries is None else max_retries
        timeout_s = self.timeout_s if timeout_s is None else timeout_s
        async with nullcontext() if has_slot else self.slots:
            now = asyncio.get_running_loop().time
            deadline = now() + timeout_s
            for attempt in range(retries + 1):
                try:
                    async with asyncio.timeout_at(deadline):
                        response = await self._send(method, url, content)
                        if response.is_success and deliver is not None and is_event_stream(response.headers):
                            return await self._deliver_events(response, deliver)
                        await response.aread()
                except TimeoutError:
                    raise RequestFailed(f"no answer from {url} within timeout_s={timeout_s:g}") from None
                except _transport_errors() as error:
                    reason, unreachable = _reason(error)
                    failure, asked_s = RequestFailed(self.redact(f"no answer from {url}: {reason}"), unreachable), 0.0
                else:
                    if response.is_success:
                        return _json(response)
                    said = self.redact(
                        f"HTTP {response.status_code} from {url}: {error_text(response.text) or 'an empty body'}"
                    )
                    if response.status_code == 401 and not (self._key() or self._user):
                        said += f" ({self.api_key_env} is not set)"
                    failure = RequestFailed(said, status=response.status_code, body=response.text)
                    asked_s = retry_after_s(response.headers.get("retry-after")) or 0.0
                wait_s = asked_s + back_off_s(attempt, random.random(), self.first_wait_s)
                is_refusal = failure.status is not None and not is_retried(failure.status)
                if is_refusal or is_final(failure) or attempt == retries or now() + wait_s >= deadline:
                    tries = f" ({attempt + 1} tries)" if attempt else ""
                    raise RequestFailed(f"{failure}{tries}", failure.unreachable, failure.status, failure.body)
                await asyncio.sleep(wait_s)
        raise AssertionError("unreachable: the last try returns or raises")

    async def _send(self, method: str, url: str, content: bytes | None) -> httpx.Response:
        import httpx

        if self._client is None:
            self._client = _client(self._is_local, self.url.startswith("https:"))
            self._background.closers.append(self._client.aclose)
        headers = {"content-type": "application/json"}
        key = self._key()
        if key:
            headers["authorization"] = f"Bearer {key}"
        auth = httpx.BasicAuth(*self._user) if self._user and not key else None
        request = self._client.build_request(method, url, content=content, headers=headers)
        return await self._client.send(request, auth=auth, stream=True)

    async def _deliver_events(self, response: httpx.Response, deliver: Callable[[Any], None]) -> None:
        try:
            async for event in read_events(response.aiter_bytes()):
                deliver(event)
        except _transport_errors() as error:
            raise RequestFailed(self.redact(f"the reply from {response.url} broke off: {_reason(error)[0]}")) from None
        finally:
            await response.aclose()

    def _key(self) -> str:
        return os.environ.get(self.api_key_env, "").strip()

    def redact(self, text: str) -> str:
        """The text without the key and the user, which some servers repeat in what they say."""
        for secret in (self._key(), *(self._user or ())):
            if len(secret) > 3:
                text = text.replace(secret, "***")
        return text


def _client(is_local: bool, is_https: bool) -> httpx.AsyncClient:
    import httpx

    # The semaphore bounds connections: a bounded pool loses places to cancelled requests (httpcore issue 1093).
    # A proxy in the environment is for other hosts than this one.
    return httpx.AsyncClient(
        timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT_S),
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=30.0),
        trust_env=not is_local,
        verify=is_https,  # reading the certificates takes a while
    )


def _transport_errors() -> tuple[type[Exception], ...]:
    import httpx

    return (httpx.TransportError, httpx.DecodingError)


def _reason(error: Exception) -> tuple[str, bool]:
    """What went wrong, from the system's own error where there is one, and whether nothing could be connected to."""
    import httpx

    cause: BaseException | None = error
    said = str(error) or type(error).__name__
    while cause is not None:
        if isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        if isinstance(cause, OSError) and cause.errno:
            # asyncio puts its own words in place of the system's; those of a failed look-up have negative numbers
            said = os.strerror(cause.errno) if cause.errno > 0 else str(cause.strerror)
        cause = cause.__cause__ or cause.__context__
    return shorten(said), isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)


def _json(response: httpx.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        kind = response.headers.get("content-type", "no type").partition(";")[0]
        said = error_text(response.text) or "an empty body"
        raise RequestFailed(
            f"{response.url} answered with {kind}, not JSON: {said}", status=response.status_code
        ) from None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _without_user(url: str) -> str:
    return url.rpartition("@")[2]
