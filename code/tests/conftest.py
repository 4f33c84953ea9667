"""conftest.py: what the tests share.

Role: provided. A scripted model in place of a real one, a throwaway repository, one way to explain a
failure, and a guard that keeps every test offline. Tests say ``from tests.conftest import turn, ...``;
a folder of tests next door takes the fixtures too: ``from tests.conftest import offline, repo``.
"""

import importlib.util
import itertools
import json
import os
import re
import socket
import sys
import traceback
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple, NoReturn

import pytest

CODE = Path(__file__).resolve().parents[1]
if str(CODE) not in sys.path:
    sys.path.insert(0, str(CODE))

os.environ["PYTHON_DOTENV_DISABLED"] = (
    "1"  # before any import of config: the .env of this machine stays unread
)

LITELLM_SPEC = importlib.util.find_spec("litellm")
PRIVATE = re.compile(
    r"LLM_MODEL|USE_OLLAMA|(AGENT|CHATBOT|OLLAMA|LITELLM)_.*"
    r"|.*_(API_KEY|API_BASE|BASE_URL)|(HTTPS?|ALL)_PROXY",
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
        self.sent.append(Sent(deepcopy(messages), list(tools)))
        self.finish()
        played = self.turns[len(self.sent) - 1]
        if isinstance(played, BaseException):
            raise played
        return played

    def finish(self) -> None:
        """Fail the test if the model was called more often than its script has turns."""
        if len(self.sent) > len(self.turns):
            pytest.fail(
                f"the model was called {len(self.sent)} times, and its script has {len(self.turns)} turns"
            )


class Idea(NamedTuple):
    """What a test stands for, in one sentence, and the section of the lesson that tells more."""

    sentence: str
    section: str


def explain(*, called: Any, got: Any, wanted: Any, idea: str, section: str) -> str:
    """The words of a failure. Text is shown as it is, any other value as one would type it.

    ``called`` is the call as one would type it, ``section`` the lesson's, such as ``"3.2"``.
    """
    called, got, wanted = (
        part if isinstance(part, str) else as_typed(part) for part in (called, got, wanted)
    )
    return (
        f"\n  called  {called}\n  got     {got}\n  wanted  {wanted}\n  idea    {idea}"
        f"\n  read    source/lesson.agent.md, section {section}"
    )


def as_typed(value: Any) -> str:
    """``value`` as one would type it, a list with an item on each line."""
    if type(value).__name__ == "Action":
        return f"Action({value.tool!r}, {value.arguments!r})"
    if isinstance(value, list) and len(value) > 1:
        return "[" + ",".join(f"\n            {as_typed(item)}" for item in value) + "\n          ]"
    return shortened(repr(value))


def shortened(text: str) -> str:
    """``text``, its middle left out if it is very long."""
    return text if len(text) <= 300 else f"{text[:200]}[...]{text[-60:]}"


class Outcome:
    """One call of a learner's function: what came back, or what it raised."""

    def __init__(self, called: str, got: Any = None, error: BaseException | None = None) -> None:
        self.called, self.got, self.error = called, got, error

    def gives(self, wanted: Any, because: Idea) -> None:
        """Fail unless the call returned ``wanted``. True, False and None have to be just that."""
        __tracebackhide__ = True
        got = self.value(wanted, because)
        if not (got is wanted if isinstance(wanted, bool | None) else got == wanted):
            self.fail(as_typed(got), as_typed(wanted), because)

    def value(self, wanted: Any, because: Idea) -> Any:
        """What the call returned. Fail if it raised instead; ``wanted`` says what should have come."""
        __tracebackhide__ = True
        if self.error is not None:
            self.fail(_raised(self.error), wanted, because)
        return self.got

    def fail(self, got: Any, wanted: Any, because: Idea) -> NoReturn:
        """Fail with the whole story."""
        __tracebackhide__ = True
        sentence, section = because
        told = explain(called=self.called, got=got, wanted=wanted, idea=sentence, section=section)
        raise pytest.fail.Exception(told) from self.error


def calling(function: Callable, *args: Any, **kwargs: Any) -> Outcome:
    """Call ``function`` and keep what happens, so that one can say what it should have been:

    ``calling(detect_stuck, [look, look, look], window=3).gives(True, because=Idea("...", "3.2"))``

    NotImplementedError goes up as it is: that function hasn't been built yet.
    """
    __tracebackhide__ = True
    owner = getattr(function, "__self__", None)
    name = function.__name__ if owner is None else f"{owner!r}.{function.__name__}"
    given = [as_typed(value) for value in args] + [
        f"{key}={as_typed(value)}" for key, value in kwargs.items()
    ]
    called = f"{name}({', '.join(given)})"
    try:
        return Outcome(called, got=function(*args, **kwargs))
    except NotImplementedError:
        raise
    except Exception as error:
        return Outcome(called, error=error.with_traceback(error.__traceback__.tb_next))


def _raised(error: BaseException) -> str:
    if isinstance(error, pytest.fail.Exception):
        return str(error)  # a script that ran out says it all
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).parent == CODE
    ]
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"it raised {type(error).__name__}: {error}{place}"


def transcript_fault(messages: list) -> str | None:
    """What a provider would refuse in ``messages``; None when they are a legal conversation.

    Each assistant turn is followed at once by one result for every call of it, in call order, each a
    text that isn't empty.
    """
    waiting: list = []
    for number, message in enumerate(messages):
        if _field(message, "role") != "tool":
            if waiting:
                return f"messages[{number}] comes before the results of {waiting}"
            waiting = [_field(each, "id") or "" for each in _field(message, "tool_calls") or []]
        elif not waiting:
            return f"messages[{number}] is an orphan: a result without a call before it"
        elif _field(message, "tool_call_id") != waiting.pop(0):
            return f"messages[{number}] has tool_call_id {_field(message, 'tool_call_id')!r}, not its call's"
        elif not isinstance(_field(message, "content"), str) or not _field(message, "content"):
            return f"messages[{number}] has no text: its content is {_field(message, 'content')!r}"
    return f"the calls {waiting} have no result" if waiting else None


def _field(record: Any, name: str) -> Any:
    return record.get(name) if isinstance(record, dict) else getattr(record, name, None)


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
    if root.exists():  # only where one folder serves many tests
        return root
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
        refused = _RefusedModule("litellm")
        refused.__spec__ = LITELLM_SPEC  # where the package lies may be asked
        monkeypatch.setitem(sys.modules, "litellm", refused)

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
