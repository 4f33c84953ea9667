"""config.py: which model drives the agent, how its provider is called, and the limits of a run.

Role: provided. The provider block is the same in every project of the course; the rest is this
project's own. Settings come from the environment, and from the first ``.env`` in this folder or
above, which `load_config` reads; what is set in the environment wins over the file.
"""

import email.utils
import math
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

# --- provider block: canonical, do not edit -------------------------------------------------------
OFFLINE_MODEL = "offline/keyword"
OLLAMA_CHAT_DEFAULT = "ollama_chat/qwen3.5:4b"  # the prefix ollama/ loses native tool calls
OLLAMA_EMBED_DEFAULT = "ollama/nomic-embed-text"
EMBED_DEFAULT = "text-embedding-3-small"
PROVIDER_DEFAULTS = [
    ("GROQ_API_KEY", "groq/openai/gpt-oss-120b"),
    ("ANTHROPIC_API_KEY", "claude-haiku-5-5"),
    ("OPENAI_API_KEY", "gpt-6-luna"),
]
KEYS_OF_PREFIX = {  # one of them is enough
    "groq/": ("GROQ_API_KEY",),
    "anthropic/": ("ANTHROPIC_API_KEY",),
    "claude": ("ANTHROPIC_API_KEY",),
    "openai/": ("OPENAI_API_KEY",),
    "gpt-": ("OPENAI_API_KEY",),
    "gemini/": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
}


def _setting(name: str, default: str = "") -> str:
    return os.environ.get(name, "").strip() or default


def _use_ollama() -> bool:
    return _setting("USE_OLLAMA").lower() in ("1", "true", "yes", "on")


def default_model() -> str:
    """The LiteLLM name of the chat model that the environment asks for.

    ``LLM_MODEL`` or ``CHATBOT_MODEL``; else Ollama's when ``USE_OLLAMA`` is on; else the default of the
    first provider whose key is set; else the built-in keyword model, which needs none.
    """
    if named := _setting("LLM_MODEL") or _setting("CHATBOT_MODEL"):
        return named
    if _use_ollama():
        model = _setting("OLLAMA_MODEL", OLLAMA_CHAT_DEFAULT)
        return model if model.startswith(("ollama_chat/", "ollama/")) else f"ollama_chat/{model}"
    return next((model for key, model in PROVIDER_DEFAULTS if _setting(key)), OFFLINE_MODEL)


def default_embedding_model() -> str:
    """The LiteLLM name of the embedding model (the course's other projects embed, this one doesn't)."""
    return _setting("OLLAMA_EMBED_MODEL", OLLAMA_EMBED_DEFAULT) if _use_ollama() else EMBED_DEFAULT


def model_problem(model: str) -> str | None:
    """Why ``model`` can't be asked, in a sentence (a key that is missing, a name that is none), or None."""
    if not model.strip():
        return "the name of the model is blank"
    if model.startswith("offline/") and model != OFFLINE_MODEL:
        return f"{model} doesn't exist; the built-in model is {OFFLINE_MODEL}"
    if model.startswith("ollama/"):
        return f"{model} would lose its tool calls; use ollama_chat/{model.removeprefix('ollama/')}"
    keys = next((keys for prefix, keys in KEYS_OF_PREFIX.items() if model.startswith(prefix)), ())
    if keys and not any(_setting(key) for key in keys):
        return f"the model {model} needs {' or '.join(keys)}; set it in the environment or in .env"
    return None


# --- calling the provider --------------------------------------------------------------------------
TRIES = 4
TIMEOUT_SECONDS = 120
LONGEST_WAIT_SECONDS = 60


class ProviderError(Exception):
    """The model could not be asked; the message is one sentence."""


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Ctrl-C waits for the end of the block: in the middle of an import it can be lost, or hang us."""
    held: list[int] = []
    main_thread = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, lambda *_: held.append(1)) if main_thread else None
    try:
        yield
    finally:
        if main_thread:
            signal.signal(signal.SIGINT, before)
    if held:
        raise KeyboardInterrupt


def load_litellm() -> Any:
    """Import LiteLLM, quiet and offline. It takes seconds of CPU, so only when a model is called."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else it fetches prices at import
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")  # else it reads .env behind our back
    os.environ.setdefault("LITELLM_LOG", "ERROR")
    with interrupts_held():
        import litellm

    litellm.suppress_debug_info = True
    litellm.disable_hf_tokenizer_download = True
    litellm.drop_params = True  # some models refuse a temperature
    return litellm


def call_provider(litellm: Any, **request: Any) -> SimpleNamespace:
    """The assistant message that ``litellm.completion(**request)`` brings.

    It carries the provider's counts (``tokens_used`` in all, ``prompt_tokens``, ``completion_tokens``) and
    ``cost`` in USD, None when unknown. Each wait has a time-out, and rate limits, time-outs, overload and
    lost connections are tried again, a bounded number of times, after as long as the provider asks.
    Raises ProviderError, with the first line of the provider's error.
    """
    for attempt in range(1, TRIES + 1):
        try:
            reply = litellm.completion(timeout=TIMEOUT_SECONDS, max_retries=0, **request)
            if reply.choices:
                return _read_reply(reply)
            raise TimeoutError("the reply holds no choice")
        except Exception as error:
            wait = seconds_to_wait(error, attempt)
            if attempt == TRIES or wait is None:
                reason = str(error).partition("Traceback")[0].strip().rstrip(" -") or type(error).__name__
                first_line = reason.splitlines()[0][:300]
                raise ProviderError(f"the model {request['model']} failed: {first_line}") from error
            time.sleep(wait)


def _read_reply(reply: Any) -> SimpleNamespace:
    message, usage = reply.choices[0].message, getattr(reply, "usage", None)
    counts = [getattr(usage, f"{part}_tokens", None) for part in ("prompt", "completion", "total")]
    prompt, completion, total = (count if type(count) is int and count > 0 else 0 for count in counts)
    return SimpleNamespace(
        role="assistant",
        content=message.content,
        tool_calls=message.tool_calls or None,
        prompt_tokens=prompt,
        completion_tokens=completion,
        tokens_used=total or prompt + completion,
        cost=(getattr(reply, "_hidden_params", None) or {}).get("response_cost"),
    )


def seconds_to_wait(error: Exception, attempt: int) -> float | None:
    """Seconds to wait after the failed ``attempt`` (1 is the first), or None when it would fail again."""
    status, text = getattr(error, "status_code", None), str(error).lower()
    passing = isinstance(error, TimeoutError) or status in (408, 429, *range(502, 505), *range(520, 530))
    if status == 500:  # a lost connection, too; but a history that the server can't parse stays so
        passing = not re.search(r"pars|json|template|tool_call|credential|api.?key", text)
    if not passing or "too large" in text or "insufficient_quota" in text:
        return None
    asked = str((getattr(error, "litellm_response_headers", None) or {}).get("retry-after", ""))
    try:
        wait = float(asked) if asked else 2.0 ** (attempt - 1)
    except ValueError:  # a date, then
        date = email.utils.parsedate_tz(asked)
        wait = email.utils.mktime_tz(date) - time.time() if date else 2.0 ** (attempt - 1)
    return max(0.0, wait) if wait <= LONGEST_WAIT_SECONDS else None


# --- this project ---------------------------------------------------------------------------------
@dataclass(frozen=True)
class Config:
    """Settings of one run; ``max_tokens`` limits one reply, ``token_budget`` the whole run."""

    model: str = OFFLINE_MODEL
    temperature: float = 0.2  # low: an agent should act the same way twice
    max_tokens: int = 1024
    repo_root: str = "."
    max_steps: int = 10
    token_budget: int = 20_000


def load_config() -> Config:
    """Read ``.env`` and the environment into a `Config`.

    Raises ValueError, which names the variable, for a value that isn't a number of the right kind.
    """
    from dotenv import find_dotenv, load_dotenv  # the tests of the core need no package but pytest

    try:
        load_dotenv(find_dotenv())
    except (OSError, ValueError) as error:
        raise ValueError(f"the file .env can't be read: {error}") from error
    return Config(
        model=default_model(),
        temperature=_number("CHATBOT_TEMPERATURE", float, Config.temperature),
        max_tokens=_number("CHATBOT_MAX_TOKENS", int, Config.max_tokens, least=1),
        repo_root=_setting("AGENT_REPO_ROOT", Config.repo_root),
        max_steps=_number("AGENT_MAX_STEPS", int, Config.max_steps),
        token_budget=_number("AGENT_TOKEN_BUDGET", int, Config.token_budget),
    )


def _number(name: str, kind: type, default: float, least: float = 0) -> float:
    text = _setting(name)
    try:
        value = kind(text) if text else default
    except ValueError:
        value = math.nan
    if not least <= value < math.inf:
        what = "whole number" if kind is int else "number"
        raise ValueError(f"{name} must be a {what} of at least {least}, not {text!r}")
    return value
