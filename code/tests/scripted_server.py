"""scripted_server.py: a small chat-completions server on loopback, which is as strict as providers are.

It plays scripted replies, records each request body, and refuses with HTTP 400 what a provider refuses:
an illegal order of messages, a call without its result, arguments that aren't a JSON object.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any


def complaint(body: dict) -> str | None:
    """What a provider would refuse in a request body, or None when it is fine."""
    waiting: list[str] = []
    seen: set[str] = set()
    for place, message in enumerate(body["messages"]):
        extra = set(message) - {"role", "content", "tool_calls", "tool_call_id"}
        if extra:
            return f"message {place} has unknown fields {sorted(extra)}"
        if message["role"] == "tool":
            if not waiting or message["tool_call_id"] != waiting.pop(0):
                return f"message {place} is a tool result without its call"
            if not isinstance(message["content"], str) or not message["content"]:
                return f"message {place} is a tool result without text"
            continue
        if waiting:
            return f"message {place} comes before the results of {waiting}"
        if message["role"] not in ("system", "user", "assistant"):
            return f"message {place} has the role {message['role']!r}"
        calls = message.get("tool_calls")
        if calls == []:
            return f"message {place} has an empty list of calls"
        for call in calls or []:
            if not call["id"] or call["id"] in seen:
                return f"message {place} has the call id {call['id']!r}, which is empty or was used before"
            seen.add(call["id"])
            waiting.append(call["id"])
            if not call["function"]["name"].replace("_", "").replace("-", "").isalnum():
                return f"message {place} calls {call['function']['name']!r}"
            try:
                if not isinstance(json.loads(call["function"]["arguments"]), dict):
                    return f"message {place} has arguments that are no object"
            except ValueError:
                return f"message {place} has arguments that are no JSON"
    return f"the results of {waiting} are missing" if waiting else None


class ScriptedServer:
    """``with ScriptedServer(reply, ...) as server``: plays ``replies`` in order at ``server.url``.

    A reply is a message dict (made into a whole reply, with ``usage``), or ``(status, text, headers)``
    for a failure, or a whole body dict that has ``choices``. ``server.bodies`` holds what was sent.
    """

    def __init__(self, *replies: Any, usage: dict | None = None) -> None:
        self.replies, self.bodies = list(replies), []
        self.usage = usage or {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        handler = type("Handler", (_Handler,), {"script": self})
        self.http = ThreadingTCPServer(("127.0.0.1", 0), handler)  # HTTPServer would ask DNS for its name
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/v1"

    def __enter__(self) -> "ScriptedServer":
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *error: Any) -> None:
        self.http.shutdown()
        self.http.server_close()

    def answer(self, body: dict) -> tuple[int, dict, dict]:
        """Status, body and headers of the reply to ``body``."""
        self.bodies.append(body)
        if problem := complaint(body):
            return 400, {"error": {"message": problem, "type": "invalid_request_error"}}, {}
        if not self.replies:
            return 400, {"error": {"message": "the script has no more replies"}}, {}
        reply = self.replies.pop(0)
        if isinstance(reply, tuple):
            status, text, headers = reply
            return status, {"error": {"message": text}}, headers
        if "choices" not in reply:
            reason = "tool_calls" if reply.get("tool_calls") else "stop"
            choice = {"index": 0, "finish_reason": reason, "message": {"role": "assistant"} | reply}
            reply = {"choices": [choice], "usage": self.usage}
        return 200, {"id": "x", "object": "chat.completion", "created": 0, "model": "local"} | reply, {}


class _Handler(BaseHTTPRequestHandler):
    script: ScriptedServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        status, reply, headers = self.script.answer(body)
        data = json.dumps(reply).encode()
        self.send_response(status)
        for name, value in {
            "content-type": "application/json",
            "content-length": len(data),
            **headers,
        }.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: Any) -> None:
        pass
