"""Configuration, and the drift guard: are the default models still there, and can they call tools?

Green from the start. The guard reads the model map that LiteLLM ships, as a JSON file; nothing here
imports LiteLLM.
"""

import datetime
import importlib.util
import json
import os
import signal
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

import config
from config import (
    OFFLINE_MODEL, OLLAMA_CHAT_DEFAULT, OLLAMA_EMBED_DEFAULT, PROVIDER_DEFAULTS, TRIES, Config, ProviderError,
    call_provider, default_embedding_model, default_model, load_config, model_problem, seconds_to_wait,
)  # fmt: skip

MAP_FILE = "model_prices_and_context_window_backup.json"


@pytest.fixture(scope="module")
def model_map():
    spec = importlib.util.find_spec("litellm")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("litellm isn't installed, so there is no model map to compare with")
    return json.loads((Path(spec.submodule_search_locations[0]) / MAP_FILE).read_text(encoding="utf-8"))


# --- the drift guard --------------------------------------------------------------------------------
def drift(model, model_map, today):
    """What is wrong with a default model, and whether a date alone is: (sentence or None, is it the date)."""
    known = model_map.get(model)
    if known is None:
        return f"{model} is not in LiteLLM's model map any more: choose another default in config.py", False
    if not known.get("supports_function_calling"):
        return (
            f"{model} can't call tools, says LiteLLM's model map: choose another default in config.py",
            False,
        )
    date = known.get("deprecation_date")
    if date and date <= today:
        return (
            f"{model} was retired on {date}, says LiteLLM's model map: choose another default in config.py",
            True,
        )
    return None, False


@pytest.mark.parametrize("model", [model for _, model in PROVIDER_DEFAULTS])
def test_a_default_model_exists_calls_tools_and_is_not_retired(model, model_map):
    problem, only_the_date = drift(model, model_map, datetime.date.today().isoformat())
    if problem and only_the_date and os.environ.get("CI", "").lower() != "true":
        warnings.warn(problem, stacklevel=1)  # a learner can't mend it
        return
    assert problem is None, problem


def test_the_drift_guard_notices_what_it_is_for():
    tools = {"supports_function_calling": True}
    known = {"good": tools, "mute": {}, "old": tools | {"deprecation_date": "2026-01-31"}}
    assert drift("good", known, "2026-02-01") == (None, False)
    assert "not in LiteLLM's model map" in drift("gone", known, "2026-02-01")[0]
    assert "can't call tools" in drift("mute", known, "2026-02-01")[0]
    assert drift("old", known, "2026-01-30") == (None, False)
    sentence, only_the_date = drift("old", known, "2026-01-31")
    assert "retired on 2026-01-31" in sentence and only_the_date


# --- which model ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "environment, model",
    [
        ({}, OFFLINE_MODEL),
        ({"LLM_MODEL": "a/b", "CHATBOT_MODEL": "c", "USE_OLLAMA": "1", "GROQ_API_KEY": "k"}, "a/b"),
        ({"CHATBOT_MODEL": "c", "USE_OLLAMA": "1", "GROQ_API_KEY": "k"}, "c"),
        ({"USE_OLLAMA": "1", "GROQ_API_KEY": "k"}, OLLAMA_CHAT_DEFAULT),
        ({"USE_OLLAMA": "Yes", "OLLAMA_MODEL": "ollama_chat/x"}, "ollama_chat/x"),
        ({"USE_OLLAMA": "on"}, OLLAMA_CHAT_DEFAULT),
        ({"USE_OLLAMA": "1", "OLLAMA_MODEL": "llama3.2"}, "ollama_chat/llama3.2"),
        ({"USE_OLLAMA": "0", "GROQ_API_KEY": "k"}, "groq/openai/gpt-oss-120b"),
        ({"USE_OLLAMA": "false"}, OFFLINE_MODEL),
        ({"GROQ_API_KEY": "k", "ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}, "groq/openai/gpt-oss-120b"),
        ({"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}, "claude-haiku-5-5"),
        ({"OPENAI_API_KEY": "k"}, "gpt-6-luna"),
        ({"GROQ_API_KEY": " ", "LLM_MODEL": "", "OPENAI_API_KEY": ""}, OFFLINE_MODEL),
    ],
)
def test_the_model_that_the_environment_asks_for(monkeypatch, environment, model):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert default_model() == model


def test_ollama_is_called_by_its_chat_interface():
    assert OLLAMA_CHAT_DEFAULT.startswith("ollama_chat/"), "the prefix ollama/ loses native tool calls"


def test_embedding_model(monkeypatch):
    assert default_embedding_model() == "text-embedding-3-small"
    monkeypatch.setenv("USE_OLLAMA", "true")
    assert default_embedding_model() == OLLAMA_EMBED_DEFAULT


@pytest.mark.parametrize(
    "model, key",
    [
        ("groq/x", "GROQ_API_KEY"), ("claude-haiku-5-5", "ANTHROPIC_API_KEY"), ("anthropic/x", "ANTHROPIC_API_KEY"),
        ("gpt-6-luna", "OPENAI_API_KEY"), ("openai/local", "OPENAI_API_KEY"), ("gemini/x", "GEMINI_API_KEY"),
        ("ollama_chat/x", None), (OFFLINE_MODEL, None), ("someone/else", None),
    ],
)  # fmt: skip
def test_a_missing_key_is_named(monkeypatch, model, key):
    if key is None:
        assert model_problem(model) is None
        return
    assert f"needs {key}" in model_problem(model)
    monkeypatch.setenv(key, "  ")
    assert f"needs {key}" in model_problem(model)
    monkeypatch.setenv(key, "k")
    assert model_problem(model) is None


def test_one_of_two_keys_is_enough(monkeypatch):
    monkeypatch.setenv("GOOGLE_API_KEY", "k")
    assert model_problem("gemini/x") is None


@pytest.mark.parametrize(
    "model, words",
    [("", "blank"), (" ", "blank"), ("offline/other", "built-in model is offline/keyword"), ("offline/", "built-in"),
     ("ollama/llama3.2", "use ollama_chat/llama3.2")],
)  # fmt: skip
def test_a_name_that_is_no_model_is_told(model, words):
    assert words in model_problem(model)


# --- load_config ------------------------------------------------------------------------------------
def test_defaults():
    assert load_config() == Config(OFFLINE_MODEL, 0.2, 1024, ".", 10, 20_000)


def test_overrides(monkeypatch):
    for name, value in {"LLM_MODEL": "m", "CHATBOT_TEMPERATURE": "0", "CHATBOT_MAX_TOKENS": "64", "AGENT_REPO_ROOT": "src",
                        "AGENT_MAX_STEPS": " 3 ", "AGENT_TOKEN_BUDGET": "0"}.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    assert load_config() == Config("m", 0.0, 64, "src", 3, 0)


@pytest.mark.parametrize(
    "name, value",
    [
        ("AGENT_MAX_STEPS", "ten"), ("AGENT_MAX_STEPS", "-1"), ("AGENT_MAX_STEPS", "2.5"), ("AGENT_TOKEN_BUDGET", "1e3"),
        ("CHATBOT_MAX_TOKENS", "0"), ("CHATBOT_TEMPERATURE", "warm"), ("CHATBOT_TEMPERATURE", "nan"),
        ("CHATBOT_TEMPERATURE", "inf"), ("CHATBOT_TEMPERATURE", "-0.1"),
    ],
)  # fmt: skip
def test_a_value_that_is_no_such_number_is_named(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=f"{name} must be a .*number of at least .*{value}"):
        load_config()


def test_dotenv_is_read_and_the_environment_wins(monkeypatch, tmp_path):
    (tmp_path / ".env").write_text("AGENT_MAX_STEPS=7\nAGENT_TOKEN_BUDGET=8\n")
    monkeypatch.delenv("PYTHON_DOTENV_DISABLED", raising=False)
    monkeypatch.setattr("dotenv.find_dotenv", lambda: str(tmp_path / ".env"))
    monkeypatch.setenv("AGENT_MAX_STEPS", "3")
    monkeypatch.setenv("AGENT_TOKEN_BUDGET", "")  # so that the test's end takes back what load_dotenv sets
    monkeypatch.delenv("AGENT_TOKEN_BUDGET")
    loaded = load_config()
    assert (loaded.max_steps, loaded.token_budget) == (3, 8)


def test_a_broken_dotenv_is_one_sentence(monkeypatch, tmp_path):
    (tmp_path / ".env").write_bytes(b"A=\xff\xfe\n")
    monkeypatch.delenv("PYTHON_DOTENV_DISABLED", raising=False)
    monkeypatch.setattr("dotenv.find_dotenv", lambda: str(tmp_path / ".env"))
    with pytest.raises(ValueError, match=r"\.env can't be read"):
        load_config()


def test_importing_the_core_does_nothing_and_loads_no_litellm():
    code = (
        "import os, sys; before = dict(os.environ)\n"
        "import config, tools, safety, agent, evaluate, agent_app\n"
        "assert dict(os.environ) == before, 'an import changed the environment'\n"
        "heavy = {'litellm', 'openai', 'lab', 'learn', 'extras'} & set(sys.modules)\n"
        "assert not heavy, f'importing the core loaded {heavy}'"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(config.__file__).parent, capture_output=True, text=True
    )
    assert done.returncode == 0 and done.stdout + done.stderr == "", done.stderr


# --- calling the provider ---------------------------------------------------------------------------
class Failure(Exception):
    def __init__(self, status, text="", retry_after=None):
        super().__init__(text)
        self.status_code = status
        self.litellm_response_headers = {"retry-after": retry_after} if retry_after else None


@pytest.mark.parametrize(
    "error, wait",
    [
        (Failure(429), 2.0), (Failure(429, retry_after="7"), 7.0), (Failure(429, retry_after="0.5"), 0.5),
        (Failure(429, retry_after="3600"), None), (Failure(429, retry_after="soon"), 2.0),
        (Failure(429, "insufficient_quota"), None), (Failure(429, "exceeded your current quota"), 2.0),
        (Failure(429, retry_after="Thu, 01 Jan 1970 00:00:00 GMT"), 0.0), (Failure(429, retry_after="Thu, 01 Jan 2099 00:00:00 GMT"), None), (Failure(429, "Request too large for model"), None),
        (Failure(408), 2.0), (Failure(502), 2.0), (Failure(503), 2.0), (Failure(529, "overloaded"), 2.0), (Failure(524), 2.0),
        (Failure(500, "Connection error."), 2.0), (TimeoutError("the reply holds no choice"), 2.0),
        (Failure(500, "Failed to parse tool call arguments as JSON"), None), (Failure(500, "Missing credentials"), None),
        (Failure(400), None), (Failure(401), None), (Failure(403), None), (Failure(404), None), (Failure(422), None),
        (ValueError("a bug"), None),
    ],
)  # fmt: skip
def test_which_failures_are_tried_again(error, wait):
    assert seconds_to_wait(error, 2) == wait


class Provider:
    """Stands in for the litellm module: plays failures, then replies."""

    def __init__(self, *plays):
        self.plays, self.requests = list(plays), []

    def completion(self, **request):
        self.requests.append(request)
        played = self.plays.pop(0)
        if isinstance(played, BaseException):
            raise played
        return played


class Reply:
    choices = [SimpleNamespace(message=SimpleNamespace(content="hello", tool_calls=[]))]
    usage = {}


class Nothing:
    choices = []


def test_a_passing_failure_is_waited_out(monkeypatch):
    waited = []
    monkeypatch.setattr(config.time, "sleep", waited.append)
    provider = Provider(Failure(429), Failure(503), Nothing(), Reply())
    assert call_provider(provider, model="m").content == "hello"
    assert waited == [1.0, 2.0, 4.0]
    assert provider.requests[0]["max_retries"] == 0 and provider.requests[0]["timeout"] > 0


def test_tries_are_bounded_and_the_error_is_one_line(monkeypatch):
    monkeypatch.setattr(config.time, "sleep", lambda seconds: None)
    provider = Provider(*[Failure(429, "slow down\nTraceback (most recent call last)")] * 10)
    with pytest.raises(ProviderError) as caught:
        call_provider(provider, model="m")
    assert str(caught.value) == "the model m failed: slow down" and len(provider.requests) == TRIES


@pytest.mark.parametrize("text", ["", " - ", "Invalid reply Traceback (most recent call last):"])
def test_an_error_that_says_nothing_is_told_by_its_kind(text):
    with pytest.raises(ProviderError, match="the model m failed: (Failure|Invalid reply)$"):
        call_provider(Provider(Failure(400, text)), model="m")


def test_a_lasting_failure_is_not_tried_again():
    provider = Provider(Failure(401, "no such key"))
    with pytest.raises(ProviderError, match="no such key"):
        call_provider(provider, model="m")
    assert len(provider.requests) == 1


def test_ctrl_c_goes_through():
    with pytest.raises(KeyboardInterrupt):
        call_provider(Provider(KeyboardInterrupt()), model="m")


def test_ctrl_c_waits_for_the_end_of_an_import():
    seen = []
    with pytest.raises(KeyboardInterrupt), config.interrupts_held():
        signal.raise_signal(signal.SIGINT)
        seen.append("the block went on")
    assert seen and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_is_nobodys_in_another_thread():
    with ThreadPoolExecutor(1) as pool, pytest.raises(ValueError, match="as it was"):
        pool.submit(_fails_in_the_block).result()


def _fails_in_the_block():
    with config.interrupts_held():
        raise ValueError("as it was")
