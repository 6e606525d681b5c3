"""A loopback server that behaves as Ollama does on the wire, with faults to order; answers come from a function of the test."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[
    [dict[str, Any]], str | tuple[str, str]
]  # the text, or the text and the reason that it ended
FAULTS = (
    "slow_load",
    "slow_answer",
    "cut_stream",
    "status_500",
    "disconnect",
    "in_thinking",
    "empty",
    "not_json_line",
    "too_long",
)


@dataclass
class FakeOllama:
    """State of the server: its models, the fault it has now, and the requests it saw."""

    models: tuple[str, ...] = ("tiny:1b", "embed:1b")
    dim: int = 8
    answer: Answer = lambda request: "{}"
    embed: Callable[[list[str]], list[list[float]]] | None = (
        None  # None: vectors that depend on the text alone
    )
    fault: str | None = None
    seen: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    url: str = ""
    closed_early: int = 0

    def asked(self, path: str) -> list[dict[str, Any]]:
        return [body for seen, body in self.seen if seen == path]


def vector(text: str, dim: int) -> list[float]:
    """A unit-free vector that depends on the text alone."""
    raw = hashlib.sha256(text.encode()).digest()
    return [raw[index % 32] / 255 + 0.01 for index in range(dim)]


def _handler(state: FakeOllama) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            return

        def _json(self, value: object, status: int = 200) -> None:
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _chunk(self, text: bytes) -> None:
            self.wfile.write(b"%x\r\n" % len(text) + text + b"\r\n")
            self.wfile.flush()

        def do_GET(self) -> None:
            state.seen.append((self.path, {}))
            if self.path == "/api/tags":
                self._json(
                    {
                        "models": [
                            {
                                "name": name,
                                "model": name,
                                "size": 1,
                                "digest": hashlib.sha256(name.encode()).hexdigest(),
                            }
                            for name in state.models
                        ]
                    }
                )
            elif self.path == "/api/version":
                self._json({"version": "0.0.0-test"})
            else:
                self._json({"error": "not found"}, 404)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
            state.seen.append((self.path, body))
            if state.fault == "status_500":
                return self._json({"error": "out of memory"}, 500)
            if state.fault == "disconnect":
                self.close_connection = True
                self.connection.close()
                return None
            if body.get("model") not in state.models:
                return self._json({"error": f"model '{body.get('model')}' not found"}, 404)
            route = {
                "/api/generate": self._generate,
                "/api/chat": self._chat,
                "/api/embed": self._embed,
                "/api/show": self._show,
            }
            try:
                return route.get(self.path, lambda _: self._json({"error": "not found"}, 404))(body)
            except (BrokenPipeError, ConnectionResetError):
                state.closed_early += 1
                return None

        def _generate(self, body: dict[str, Any]) -> None:
            if state.fault == "slow_load":
                time.sleep(1.0)
            last = {
                "model": body["model"],
                "created_at": "2026-01-01T00:00:00Z",
                "response": "",
                "done": True,
                "done_reason": "load",
            }
            self._json(last)

        def _show(self, body: dict[str, Any]) -> None:
            self._json(
                {"capabilities": ["completion", "thinking"], "details": {"family": "test"}, "model_info": {}}
            )

        def _chat(self, body: dict[str, Any]) -> None:
            answer = "" if state.fault == "empty" else state.answer(body)
            text, reason = answer if isinstance(answer, tuple) else (answer, "stop")
            self.send_response(200)
            self.send_header("content-type", "application/x-ndjson")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            where = "thinking" if state.fault == "in_thinking" else "content"
            base = {"model": body["model"], "created_at": "2026-01-01T00:00:00Z"}
            pieces = [text[at : at + 7] for at in range(0, len(text), 7)]
            for number, piece in enumerate(pieces):
                if state.fault == "cut_stream" and number == max(1, len(pieces) // 2):
                    self.close_connection = True
                    return self.connection.close()
                if state.fault == "slow_answer":
                    time.sleep(0.15)
                message = {"role": "assistant", "content": "", **{where: piece}}
                self._chunk(json.dumps({**base, "message": message, "done": False}).encode() + b"\n")
                if state.fault == "not_json_line":
                    self._chunk(b"<html>502 Bad Gateway</html>\n")
            end = {
                "done": True,
                "done_reason": "length" if state.fault == "too_long" else reason,
                "eval_count": len(pieces),
                "eval_duration": 1_000_000,
            }
            self._chunk(
                json.dumps({**base, "message": {"role": "assistant", "content": ""}, **end}).encode() + b"\n"
            )
            self._chunk(b"")
            return None

        def _embed(self, body: dict[str, Any]) -> None:
            texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
            self._json(
                {
                    "model": body["model"],
                    "embeddings": state.embed(texts)
                    if state.embed
                    else [vector(text, state.dim) for text in texts],
                    "prompt_eval_count": len(texts),
                }
            )

    return Handler


@contextmanager
def fake_ollama(**settings: Any) -> Iterator[FakeOllama]:
    """Run the server on a free loopback port for the length of the block."""
    state = FakeOllama(**settings)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(state))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
