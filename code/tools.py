"""tools.py: the agent's action space and its security boundary.

Role: provided. Three tools that only read, each under `safe_resolve`; `dispatch_tool`, which checks a
model's call before it runs; and `TOOL_SCHEMAS`, which tells the model what there is.

What is covered:
- paths out of the repository: `..`, absolute paths, prefix twins, links that lead outside
- secrets: `.env` files, private keys, credential files and `.git` stay closed, through links and in
  any case; `list_directory` shows only that they are there
- things that aren't regular files (pipes, devices, sockets), binary files, files of any size
- names and text that would break the format: newlines, undecodable bytes, endless lines
- calls with an unknown tool, malformed arguments, missing, ill-typed or smuggled parameters

What is not covered:
- secrets in files with ordinary names, and hard links, which have no other side to check
- text in a file that tries to instruct the model: a tool result is data, and may lie
- a repository that another process changes during a call
"""

import heapq
import json
import os
import re
import stat
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any, BinaryIO

READ_CHARS = 16_000
MAX_ENTRIES = 200
MAX_HITS = 50
MAX_LINE = 200
MAX_PATH = 4096
MAX_FILE_BYTES = 4_000_000
MAX_RESULT_CHARS = 20_000
BLOCK = 1 << 16
FARTHEST = 1 << 28  # how far into a file it looks for start_line
SNIFF = 8192  # a NUL in this many first bytes marks a binary file

MALFORMED = "__malformed__"  # key under which `agent.parse_tool_calls` explains arguments it can't read

SKIPPED_DIRS = frozenset(
    ".git .hg .svn __pycache__ .venv venv node_modules .cache .pytest_cache .mypy_cache .ruff_cache "
    ".tox .nox .eggs .ipynb_checkpoints .learn".split()
)
SECRET = re.compile(  # the tail: Windows takes "X. " and "X:stream" for X
    r"(\.git|\.env(?!\.(example|sample|template|dist)$)(\..*)?|id_(rsa|dsa|ecdsa|ed25519)(_sk)?|.*\.(pem|key|p12|pfx)"
    r"|[._]netrc|\.npmrc|\.pypirc|\.pgpass|\.git-credentials|\.ssh|\.aws)(~|\.bak)?[. ]*(:.*)?",
    re.IGNORECASE | re.DOTALL,
)
OPEN_FLAGS = sum(getattr(os, flag, 0) for flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))


def safe_resolve(repo_root: str | Path, path: str) -> Path:
    """The absolute path that ``path`` means under ``repo_root``, links resolved.

    Raises ValueError when it lies outside the root or can't be a path; the message doesn't tell
    whether anything is there.
    """
    root = Path(repo_root).resolve()
    try:
        if len(path) > MAX_PATH:
            raise ValueError("too long")
        target = Path(os.path.realpath(root / path))
    except (ValueError, OSError) as error:
        raise ValueError(f"{_shown(path)} is not a usable path") from error
    if not target.is_relative_to(root):
        raise ValueError(f"{_shown(path)} leads outside the repository")
    return target


def read_file(repo_root: str | Path, path: str, start_line: int = 1) -> str:
    """The text of a file from line ``start_line`` (the first is 1): whole lines, 16,000 characters at most.

    When there is more, a last line in brackets says which lines these are and how to go on. Bytes that
    aren't UTF-8 are shown as replacement characters. Reads no more than it needs.
    Raises ValueError (outside, secret, binary, not a regular file, no such line) or OSError.
    """
    target = _allowed(repo_root, path)
    if start_line < 1:
        raise ValueError(f"start_line counts from 1, not from {start_line}")
    try:
        mode = os.stat(target).st_mode
        if stat.S_ISDIR(mode):
            raise ValueError(f"{_shown(path)} is a directory; list_directory shows what is in it")
        if not stat.S_ISREG(mode):
            raise ValueError(f"{_shown(path)} is not a regular file")
        with open(target, "rb") as file:
            if b"\0" in file.read(SNIFF):
                raise ValueError(f"{_shown(path)} is a binary file of {os.path.getsize(target)} bytes")
            file.seek(0)
            return _window(file, start_line)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(f"{_shown(path)} is not there; list_directory shows what is") from error
    except OSError as error:
        raise OSError(f"cannot read {_shown(path)}: {error.strerror}") from error


def _window(file: BinaryIO, first: int) -> str:
    line, ended, start = 1, True, 0
    while line < first and (block := file.read(BLOCK)):
        lines, ended = block.count(b"\n"), block.endswith(b"\n")
        if line + lines >= first:
            place = 0
            for _ in range(first - line):
                place = block.index(b"\n", place) + 1
            file.seek(start + place)
        line, start = min(line + lines, first), start + len(block)
        if start > FARTHEST:
            raise ValueError(f"line {first} lies more than {FARTHEST} bytes into the file; use search_code")
    data = file.read(4 * READ_CHARS + 1)  # a character has four bytes at most
    if not data and first > 1:
        raise ValueError(f"start_line {first} is past the end: the file has {line - ended} lines")
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    if first == 1:
        text = text.removeprefix("\ufeff")
    if len(data) <= 4 * READ_CHARS and len(text) <= READ_CHARS:
        return text or "(empty file)"
    shown = text[: text.rfind("\n", 0, READ_CHARS) + 1]
    if not shown:
        cut = f"[line {first} is cut after {READ_CHARS} characters; go on with start_line={first + 1}]"
        return f"{text[:READ_CHARS]}\n{cut}"
    after = first + shown.count("\n")
    return f"{shown}[lines {first} to {after - 1}; there are more, go on with start_line={after}]"


def list_directory(repo_root: str | Path, path: str = ".") -> str:
    """The names in a directory, sorted, one a line, directories with a trailing ``/``; 200 at most.

    Raises ValueError (outside, secret) or OSError.
    """
    target = _allowed(repo_root, path)
    if not os.path.isdir(target):
        raise NotADirectoryError(f"{_shown(path)} is not a directory of this repository")
    try:
        with os.scandir(target) as entries:
            entries = list(entries)
    except OSError as error:
        raise OSError(f"cannot list {_shown(path)}: {error.strerror}") from error
    lines = []
    for entry in heapq.nsmallest(MAX_ENTRIES, entries, key=attrgetter("name")):
        kind = " (link)" if entry.is_symlink() else "/" if entry.is_dir() else ""
        lines.append(_printable(entry.name) + kind)
    if len(entries) > MAX_ENTRIES:
        lines.append(f"[{len(entries) - MAX_ENTRIES} more entries are not shown]")
    return "\n".join(lines) or "(empty directory)"


def search_code(repo_root: str | Path, query: str) -> str:
    """Every line of the repository that holds ``query``, literally, as ``path:line: text``; 50 at most.

    Files come in the tree's order. Left out: caches and environments, binary files, links, secrets,
    files over 4 MB. When nothing is found, it says how many files were searched.
    Raises ValueError when ``query`` is blank or has several lines, or the root is no directory.
    """
    if not query.strip():
        raise ValueError("the query is empty; give the text to look for")
    if "\n" in query or "\r" in query:
        raise ValueError("the query has several lines; give a part of one line")
    needle = query.encode("utf-8", "surrogatepass")
    root = Path(repo_root).resolve()
    if not root.is_dir():
        raise NotADirectoryError("the repository is not a directory")
    hits, searched, skipped = [], 0, 0
    for path in _files(str(root)):
        data = path and _contents(path)
        if data is None:
            skipped += 1
            continue
        searched += 1
        at, end, line = data.find(needle), 0, 1
        while at >= 0:
            if len(hits) == MAX_HITS:
                return (
                    "\n".join(hits)
                    + f"\n[only the first {MAX_HITS} hits are shown; a longer query finds fewer]"
                )
            line += data.count(b"\n", end, at)
            start, end = data.rfind(b"\n", 0, at) + 1, data.find(b"\n", at)
            end = len(data) if end < 0 else end
            shown = _printable(os.path.relpath(path, root).replace(os.sep, "/"))
            hits.append(f"{shown}:{line}: {_around(data[start:end], at - start)}")
            at = data.find(needle, end)
    if hits:
        return "\n".join(hits)
    also = f", {skipped} skipped" if skipped else ""
    return f"no line holds {query!r} ({searched} files searched{also}); try a shorter or another word"


def _files(top: str) -> Iterator[str | None]:
    """Paths of the files to search, in the tree's order, and None for each that is left out."""
    stack = _entries(top)
    while stack:
        entry = stack.pop()
        if entry.is_dir(follow_symlinks=False):
            if entry.name.lower() not in SKIPPED_DIRS and not SECRET.fullmatch(entry.name):
                children = _entries(entry.path)
                if children is None:
                    yield None
                else:
                    stack += children
        elif entry.is_file(follow_symlinks=False) and not SECRET.fullmatch(entry.name):
            yield entry.path
        else:
            yield None


def _entries(path: str) -> list[os.DirEntry] | None:
    try:
        with os.scandir(path) as entries:
            return sorted(entries, key=attrgetter("name"), reverse=True)
    except OSError:
        return None


def _contents(path: str) -> bytes | None:
    """The bytes of a text file, or None when it is binary, too large or can't be read."""
    try:
        handle = os.open(path, OPEN_FLAGS)  # half the cost of open()
    except OSError:
        return None
    try:
        data = os.read(handle, BLOCK)
        if data.find(0, 0, SNIFF) >= 0:
            return None
        if len(data) == BLOCK:
            data += os.read(handle, min(os.fstat(handle).st_size, MAX_FILE_BYTES))
        return data if len(data) <= MAX_FILE_BYTES else None
    except OSError:
        return None
    finally:
        os.close(handle)


def _around(line: bytes, at: int) -> str:
    """A line as text, cut to 200 characters around the hit that begins at byte ``at``."""
    text = line.decode("utf-8", "replace").rstrip("\r")
    start = max(0, min(len(line[:at].decode("utf-8", "replace")) - MAX_LINE // 4, len(text) - MAX_LINE))
    end = start + MAX_LINE
    return "…" * (start > 0) + text[start:end] + "…" * (end < len(text))


def _allowed(repo_root: str | Path, path: str) -> Path:
    """`safe_resolve`, and ValueError for what is secret, judged on the resolved path."""
    target = safe_resolve(repo_root, path)
    if any(SECRET.fullmatch(part) for part in target.relative_to(Path(repo_root).resolve()).parts):
        raise ValueError(f"{_shown(path)} may hold secrets and stays closed")
    return target


def _shown(path: str) -> str:
    return repr(path if len(path) <= MAX_LINE else path[:MAX_LINE] + "…")


def _printable(name: str) -> str:
    return name if name.isprintable() else repr(name)[1:-1]


TOOLS = {"read_file": read_file, "list_directory": list_directory, "search_code": search_code}


def _schema(name: str, description: str, required: list[str], **properties: tuple[str, str]) -> dict:
    described = {key: {"type": kind, "description": text} for key, (kind, text) in properties.items()}
    parameters = {"type": "object", "properties": described, "required": required}
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


TOOL_SCHEMAS = [
    _schema(
        "read_file",
        "Read a text file of the repository. A long file comes in parts; the last line tells how to go on.",
        ["path"],
        path=("string", "a file, relative to the repository root"),
        start_line=("integer", "first line to show, counted from 1; left out: from the top"),
    ),
    _schema(
        "list_directory",
        "List the names in a directory of the repository. Directories end with /.",
        [],
        path=("string", "a directory, relative to the repository root; left out: the root itself"),
    ),
    _schema(
        "search_code",
        "Find every line of the repository that contains the query, as path:line: text. "
        "Literal, case counts.",
        ["query"],
        query=("string", "one word or short piece of code to look for, such as def load_config"),
    ),
]
PARAMETERS = {schema["function"]["name"]: schema["function"]["parameters"] for schema in TOOL_SCHEMAS}
TYPES = {"string": str, "integer": int}


def dispatch_tool(name: str, arguments: dict, repo_root: str | Path) -> str:
    """Run the tool that a model asked for and return what the model gets to see, never empty.

    A call that can't be run as asked (unknown tool, malformed, missing or ill-typed arguments) is
    answered with ``Error: `` and how to put it right; unknown extra arguments are ignored. What the
    tool itself raises goes up to the caller.
    """
    return _as_text(_refusal(name, arguments) or TOOLS[name](repo_root, **_known(name, arguments)))


def _refusal(name: str, arguments: dict) -> str | None:
    """Why a call can't be run as asked, for the model, or None when it can."""
    if name not in list(TOOLS):  # a list: what a model sends as a name needn't be hashable
        return f"Error: there is no tool {_shown(str(name))}; the tools are {', '.join(TOOLS)}"
    parameters = PARAMETERS[name]
    example = json.dumps(dict.fromkeys(parameters["required"], "..."))
    usage = f"call {name} with a JSON object such as {example}"
    if MALFORMED in arguments:
        return f"Error: the arguments are not a JSON object: {arguments[MALFORMED]}. {usage}"
    for key in parameters["required"]:
        if key not in arguments:
            return f"Error: argument {key!r} is missing; {usage}"
    for key, value in _known(name, arguments).items():
        kind = parameters["properties"][key]["type"]
        if type(value) is not TYPES[kind]:
            given = json.dumps(value)[:MAX_LINE]
            return f"Error: argument {key!r} must be of type {kind}, not {given}; {usage}"
    return None


def _known(name: str, arguments: dict) -> dict:
    """The arguments that the tool has, without optional nulls, and whole floats as integers."""
    parameters, known = PARAMETERS[name], {}
    for key in parameters["properties"]:
        value = arguments.get(key)
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # some providers send every number as a float
        if value is not None or key in parameters["required"]:
            known[key] = value
    return known


def _as_text(result: Any) -> str:
    """``result`` as a non-empty, bounded string that any JSON or UTF-8 writer takes."""
    if isinstance(result, bytes):
        result = result.decode("utf-8", "replace")
    elif not isinstance(result, str):
        result = json.dumps(result, default=str)
    text = result.encode("utf-8", "replace").decode() or "(no output)"
    if len(text) > MAX_RESULT_CHARS:
        text = text[:MAX_RESULT_CHARS] + f"\n[cut: {len(text) - MAX_RESULT_CHARS} more characters]"
    return text
