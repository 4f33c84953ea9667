"""conftest.py: what the tests share.

Role: provided. A scripted model in place of a real one, a throwaway repository, one way to explain a
failure, and a guard that keeps every test offline. Tests say ``from tests.conftest import turn, ...``;
a folder of tests next door takes the fixtures too: ``from tests.conftest import offline, repo``.
"""

import importlib
import itertools
import json
import os
import re
import socket
import sys
from copy import deepcopy
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import pytest

CODE = Path(__file__).resolve().parents[1]
if str(CODE) not in sys.path:
    sys.path.insert(0, str(CODE))

os.environ["PYTHON_DOTENV_DISABLED"] = "1"  # before any import of config: the .env of this machine stays unread

PRIVATE = re.compile(
    r"LLM_MODEL|USE_OLLAMA|(AGENT|CHATBOT|OLLAMA|LITELLM)_.*|.*_(API_KEY|API_BASE|BASE_URL)|(HTTPS?|ALL)_PROXY",
    re.IGNORECASE,
)
_ids = itertools.count(1)


def call(name: Any, arguments: Any = None, id: Any = ...) -> SimpleNamespace:
    """One tool call as a provider sends it. A dict is sent as its JSON text, anything else as it is.

    ``id`` is a fresh one unless it is given.
    """
    raw = json.dumps(arguments) if isinstance(arguments, dict) else "{}" if arguments is None else arguments
    given = f"call_{next(_ids)}" if id is ... else id
    return SimpleNamespace(id=given, type="function", function=SimpleNamespace(name=name, arguments=raw))


def turn(*calls: Any, text: Any = None, tokens: Any = None) -> SimpleNamespace:
    """One assistant message: tool calls, or the answer ``text``, or both.

    ``tokens`` is what the provider counted for it; left out, `agent.estimate_tokens` has to estimate.
    """
    message = SimpleNamespace(role="assistant", content=text, tool_calls=list(calls) or None)
    if tokens is not None:
        message.tokens_used = tokens
    return message


class Sent(NamedTuple):
    """What the model was sent in one call: a copy, which later changes don't reach."""

    messages: list
    tools: list


class ScriptedModel:
    """A ``complete`` that plays ``turns`` in order; ``sent`` records what each call was sent.

    A turn that is an exception is raised. A call beyond the last turn fails the test: the failure
    passes an ``except Exception``, and `finish` raises it again should something else have caught it.
    """

    def __init__(self, *turns: Any) -> None:
        self.turns = turns
        self.sent: list[Sent] = []

    def __call__(self, messages: list, tools: list) -> Any:
        self.sent.append(Sent(deepcopy(messages), deepcopy(tools)))
        self.finish()
        played = self.turns[len(self.sent) - 1]
        if isinstance(played, BaseException):
            raise played
        return played

    def finish(self) -> None:
        """Fail the test if the model was called more often than its script has turns."""
        if len(self.sent) > len(self.turns):
            pytest.fail(f"the model was called {len(self.sent)} times, and its script has {len(self.turns)} turns")


def explain(*, called: Any, got: Any, wanted: Any, idea: str, section: str) -> str:
    """The words of a failure. Text is shown as it is, any other value as Python writes it.

    ``called`` is the call as one would type it, ``section`` the lesson's, such as ``"3.2"``.
    """
    called, got, wanted = (part if isinstance(part, str) else repr(part) for part in (called, got, wanted))
    return (
        f"\n  called  {called}\n  got     {got}\n  wanted  {wanted}\n  idea    {idea}"
        f"\n  read    source/lesson.agent.md, section {section}"
    )


FILES = {
    "README.md": "# Greeter\n\nSays hello in the language of your choice.\n",
    "settings.py": 'DEFAULT_LANGUAGE = "fr"\nRETRIES = 3\n',
    "greeter/__init__.py": "",
    "greeter/words.py": 'HELLO = {"en": "hello", "fr": "bonjour"}\n',
    "greeter/main.py": (
        "from greeter.words import HELLO\n\n\n"
        "def greet(language: str) -> str:\n"
        '    """The greeting in one language."""\n'
        "    return HELLO[language]\n"
    ),
}


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """The root of a small throwaway repository: a greeter in five files."""
    root = tmp_path / "repo"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8", newline="\n")
    return root


class _RefusedModule(ModuleType):
    """Stands in for ``litellm`` while tests run: importing it is free, using it fails the test."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        pytest.fail(f"a test reached for {self.__name__}.{name}: no test may call a real model")


def _is_local(address: Any) -> bool:
    host = address[0] if isinstance(address, tuple) else address
    host = host.decode() if isinstance(host, bytes) else host
    return not host or host in ("localhost", "::1") or host.startswith("127.")


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Every test: no network but loopback, no real model, nobody's keys or settings in the environment."""
    for name in [name for name in os.environ if PRIVATE.fullmatch(name)]:
        monkeypatch.delenv(name)
    if "real_litellm" not in request.fixturenames:
        monkeypatch.setitem(sys.modules, "litellm", _RefusedModule("litellm"))

    def guard(owner: Any, method: str, position: int) -> None:
        real = getattr(owner, method)

        def guarded(*args: Any, **kwargs: Any) -> Any:
            if not (args and getattr(args[0], "family", None) == getattr(socket, "AF_UNIX", 0)):
                if not _is_local(args[position]):
                    pytest.fail(f"a test tried to reach {args[position]!r}: tests stay offline")
            return real(*args, **kwargs)

        monkeypatch.setattr(owner, method, guarded)

    guard(socket.socket, "connect", 1)
    guard(socket.socket, "connect_ex", 1)
    guard(socket.socket, "sendto", -1)
    guard(socket, "getaddrinfo", 0)


@pytest.fixture
def real_litellm(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The real ``litellm`` (4 s of CPU at its first import), for tests against a server on loopback."""
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    monkeypatch.setenv("LITELLM_MODE", "PRODUCTION")
    monkeypatch.setenv("LITELLM_LOG", "ERROR")
    return importlib.import_module("litellm")
