"""Which model a server has, and how long its context is."""

from __future__ import annotations

import time
from typing import Any

from graphmill.engine.server import RequestFailed, Server, ServerError

DISCOVER_TIMEOUT_S = 30.0


def discover(server: Server, model: str | None, wait_s: float = 0.0) -> tuple[str, int | None]:
    """The model to use (the given one, else the only one served) and its context length where the server tells.

    Raises ServerError when nothing answers within ``wait_s``, the key is refused, or no one model is meant.
    """
    deadline = time.monotonic() + wait_s
    while True:
        try:
            answer = server.run(
                server.request("GET", f"{server.url}/models", max_retries=0, timeout_s=DISCOVER_TIMEOUT_S)
            )
            break
        except RequestFailed as error:
            if time.monotonic() < deadline and (error.unreachable or error.status in (None, 429, 502, 503)):
                time.sleep(1.0)
                continue
            if error.status in (404, 405, 501) and model is not None:  # no list of models is kept here
                return model, None
            raise ServerError(_no_server(server, error)) from None
    listed = answer.get("data") if isinstance(answer, dict) else answer
    cards = [card for card in listed if isinstance(card, dict) and card.get("id")] if isinstance(listed, list) else []
    if model is None:
        own = [card for card in cards if not card.get("parent")] or cards  # vLLM lists adapters with their parent
        if len(own) != 1:
            names = ", ".join(str(card["id"]) for card in own[:10]) + (", …" if len(own) > 10 else "")
            what = f"it serves {len(own)}: {names}" if own else "it lists none"
            raise ServerError(f"name the model to use at {server.url}, as URL#MODEL: {what}")
        model = str(own[0]["id"])
    for card in cards:
        if card["id"] == model:
            return model, _length(card.get("max_model_len"))
    return model, None


def _no_server(server: Server, error: RequestFailed) -> str:
    if error.status in (401, 403):
        return f"the model server at {server.url} refused the key in {server.api_key_env}: {error}"
    hint = "; is it running? `vllm serve MODEL` starts one" if error.status is None else ""
    return f"no model server at {server.url}: {error}{hint}"


def _length(value: Any) -> int | None:
    return value if isinstance(value, int) and value > 0 else None
