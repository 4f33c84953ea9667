"""order_server.py: a small chat server on loopback that is as strict about message order as providers are.

It puts any ``complete`` behind ``POST /v1/chat/completions`` and answers 400 to a conversation that
`order_fault` objects to. Standard library only; nothing leaves the machine.
"""

import json
from collections.abc import Callable
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from threading import Thread
from types import SimpleNamespace
from typing import Any

from agent import get_field


class Refused(Exception):
    """The server refused a request; the message is what it said."""


def order_fault(messages: list) -> str | None:
    """What is wrong with the order of a conversation, or None.

    The rule: after an assistant turn with tool calls comes one tool message for each of its calls,
    before anything else; and a tool message comes nowhere else.

    >>> order_fault([{"role": "tool", "tool_call_id": "c1", "content": "12"}])
    "message 0 is a tool result, but no assistant turn before it called 'c1'"
    """
    waiting: list[str] = []
    for number, message in enumerate(messages):
        if get_field(message, "role") == "tool":
            call_id = get_field(message, "tool_call_id")
            if call_id not in waiting:
                return (
                    f"message {number} is a tool result, but no assistant turn before it called {call_id!r}"
                )
            waiting.remove(call_id)
        elif waiting:
            break
        else:
            waiting = [get_field(call, "id") for call in get_field(message, "tool_calls") or []]
    return f"the tool call {waiting[0]!r} has no result behind it" if waiting else None


class OrderServer:
    """``with OrderServer(complete) as server:`` serves ``complete`` until the block ends.

    ``requests`` counts what came, ``accepted`` what the order let through.
    """

    def __init__(self, complete: Callable[[list, list], Any]) -> None:
        self.complete = complete
        self.requests = self.accepted = 0

    def __enter__(self) -> "OrderServer":
        serve = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status, answer = serve.answer(body["messages"], body["tools"])
                data = json.dumps(answer, default=vars).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingTCPServer(("127.0.0.1", 0), Handler)  # HTTPServer would ask DNS for its name
        Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.server.shutdown()
        self.server.server_close()

    def answer(self, messages: list, tools: list) -> tuple[int, dict]:
        """HTTP status and body for one request."""
        self.requests += 1
        if fault := order_fault(messages):
            return 400, {"error": {"message": fault}}
        self.accepted += 1
        message = self.complete(messages, tools)
        return 200, {"choices": [{"message": message}], "usage": {"total_tokens": message.tokens_used}}

    def ask(self, messages: list, tools: list) -> SimpleNamespace:
        """The client's side: a ``complete`` that sends ``messages`` in their order. Raises Refused."""
        connection = HTTPConnection("127.0.0.1", self.server.server_address[1], timeout=10)
        try:
            body = json.dumps({"messages": messages, "tools": tools}, default=vars)
            connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            reply = json.loads(response.read(), object_hook=lambda fields: SimpleNamespace(**fields))
        finally:
            connection.close()
        if response.status != 200:
            raise Refused(f"HTTP {response.status}: {reply.error.message}")
        message = reply.choices[0].message
        message.tokens_used = reply.usage.total_tokens
        return message
