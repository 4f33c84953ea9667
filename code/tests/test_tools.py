"""The action space and its sandbox (source/lesson.agent.md, section 3.7). Green from the start.

Each line of the two lists at the top of tools.py that says "covered" is attacked here.
"""

import inspect
import json
import os
import socket
import sys
import time
from datetime import datetime
from pathlib import Path

import pytest

import agent
import tools
from tests.conftest import call, turn
from tools import (
    MALFORMED,
    TOOL_SCHEMAS,
    TOOLS,
    dispatch_tool,
    list_directory,
    read_file,
    safe_resolve,
    search_code,
)

SENTINEL = "SENTINEL-5e1f"


def ask(repo_root, name, **arguments):
    """What the model gets to see after one call: the result, or the error as an observation."""
    (asked,) = agent.parse_tool_calls(turn(call(name, arguments)))
    try:
        return dispatch_tool(asked.name, asked.arguments, repo_root)
    except Exception as error:
        return agent.describe_error(error)


def link(path: Path, target, directory=False) -> None:
    try:
        path.symlink_to(target, target_is_directory=directory)
    except (OSError, NotImplementedError):
        pytest.skip("no symbolic links here")


def write(path: Path, data) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


@pytest.fixture
def outside(repo):
    """A file beside the repository, in a folder whose name begins like the repository's."""
    return write(repo.parent / "repo-evil" / "secret.txt", SENTINEL)


# --- the sandbox ------------------------------------------------------------------------------------
ESCAPES = [
    "../repo-evil/secret.txt", "greeter/../../repo-evil/secret.txt", "./../repo-evil/secret.txt",
    "settings.py/../../repo-evil/secret.txt", "..", "../", "./..", "..//", "/", "//", "/etc/passwd", "//etc/passwd",
    "/proc/self/environ", "../repo", "../missing", "../../../../../../../../../../etc/passwd",
]  # fmt: skip
NOT_PATHS = [
    "a/" * 200_000,
    "a\0b",
    "\0",
    "\ud800",
    "x" * 5000,
    "a/" * 5000,
    "def f():\n    return 1\n" * 200,
]
LITERAL = ["~/.ssh/id_rsa.pub", "$HOME/x", "%USERPROFILE%", "~", "..\\..\\etc\\passwd", "C:\\Windows\\win.ini",
           "\\\\server\\share", ".. ", *(["settings.py "] if os.name != "nt" else [])]  # fmt: skip


@pytest.mark.parametrize("path", ESCAPES)
def test_a_path_that_leads_outside_is_refused(repo, outside, path):
    if path == "../repo":
        assert safe_resolve(repo, path) == repo.resolve()  # out and in again is inside
        return
    with pytest.raises(ValueError, match="outside the repository"):
        safe_resolve(repo, path)
    for name in ("read_file", "list_directory"):
        seen = ask(repo, name, path=path)
        assert seen.startswith("Error: ") and SENTINEL not in seen and "root:" not in seen


def test_the_absolute_path_of_a_neighbour_is_refused_and_that_of_a_file_inside_is_not(repo, outside):
    assert ask(repo, "read_file", path=str(outside)).startswith("Error: ")
    assert "DEFAULT_LANGUAGE" in ask(repo, "read_file", path=str(repo / "settings.py"))


def test_a_refusal_does_not_tell_whether_anything_is_there(repo, outside):
    there, missing = ("../repo-evil/secret.txt", "../repo-evil/nothing.txt")
    assert ask(repo, "read_file", path=there).replace(there, "") == ask(
        repo, "read_file", path=missing
    ).replace(missing, "")


@pytest.mark.parametrize("path", NOT_PATHS + LITERAL, ids=range(len(NOT_PATHS + LITERAL)))
def test_what_is_no_path_is_an_error_of_bounded_length(repo, path):
    for name in ("read_file", "list_directory"):
        seen = ask(repo, name, path=path)
        assert seen.startswith("Error: ") and len(seen) < 1200
        assert str(repo) not in seen, "the observation tells where the repository lies on this machine"
        json.dumps(seen).encode()


@pytest.mark.parametrize(
    "name", ["[...slug].ts", "v1..2.txt", "~notes", "a..b/c.py", "..data", "$x", "-rf", "a b.txt"]
)
def test_an_honest_name_that_looks_odd_is_readable(repo, name):
    write(repo / name, "fine\n")
    assert ask(repo, "read_file", path=name) == "fine\n"


def test_links(repo, outside):
    link(repo / "out.txt", outside)
    link(repo / "out", outside.parent, directory=True)
    link(repo / "in.py", repo / "settings.py")
    link(repo / "inner", repo / "greeter", directory=True)
    link(repo / "self", ".", directory=True)
    link(repo / "loop", "loop")
    link(repo / "dangling", "/nonexistent")
    for path in ("out.txt", "out/secret.txt", "self/out.txt"):
        assert ask(repo, "read_file", path=path).startswith("Error: ")
    assert ask(repo, "list_directory", path="out").startswith("Error: ")
    for path in ("loop", "dangling"):
        assert ask(repo, "read_file", path=path).startswith("Error: ")
    assert "DEFAULT_LANGUAGE" in ask(repo, "read_file", path="in.py")
    assert "words.py" in ask(repo, "list_directory", path="inner")
    listing = list_directory(repo).splitlines()
    assert "loop (link)" in listing and "dangling (link)" in listing and "settings.py" in listing
    assert "no line holds" in search_code(repo, SENTINEL)
    assert search_code(repo, "RETRIES") == "settings.py:2: RETRIES = 3", (
        "one hit for a file, however many links lead to it"
    )


def test_the_root_may_be_a_link_relative_or_a_string(repo, monkeypatch):
    link(repo.parent / "alias", repo, directory=True)
    monkeypatch.chdir(repo)
    for root in (repo.parent / "alias", ".", str(repo) + "/", str(repo)):
        assert "RETRIES" in ask(root, "read_file", path="settings.py")
        assert "settings.py:2" in ask(root, "search_code", query="RETRIES")


SECRETS = [".env", ".env.local", "config/.env.production", ".ENV", ".Env.local", "id_rsa", "ID_RSA", "id_ed25519",
           "x.pem", "X.PEM", "tls/server.key", ".netrc", "_netrc", ".npmrc", ".pypirc", ".git/config", ".GIT/config",
           ".env.", "id_rsa.", ".env:stream", ".env~", "id_rsa.bak", "id_ed25519_sk", "cert.p12", ".git-credentials",
           ".ssh/config", ".aws/credentials"]  # fmt: skip


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_stays_closed_to_all_three_tools(repo, name):
    if os.name == "nt" and (name.endswith(".") or ":" in name):
        pytest.skip("no such name on Windows")
    write(repo / name, f"KEY={SENTINEL}\n")
    link(repo / "harmless.txt", repo / name)
    for path in (name, f"greeter/../{name}", "harmless.txt"):
        seen = ask(repo, "read_file", path=path)
        assert seen.startswith("Error: ") and SENTINEL not in seen
    assert "no line holds" in ask(repo, "search_code", query=SENTINEL)
    closed = Path(name).parts[0].lower() in (".git", ".ssh", ".aws")
    shown = Path(name).parts[0] if closed else Path(name).name
    folder = "." if closed else str(Path(name).parent)
    assert any(line.rstrip("/") == shown for line in ask(repo, "list_directory", path=folder).splitlines())


def test_what_is_under_git_is_not_listed(repo):
    write(repo / ".git" / "config", SENTINEL)
    assert ask(repo, "list_directory", path=".git").startswith("Error: ")


@pytest.mark.parametrize("name", [".env.example", ".env.sample", "id_rsa.pub", "environment.py", "my.env.py", "keys.py",
                                  "monkey", ".gitignore", "key", "pem.txt"])  # fmt: skip
def test_what_only_looks_like_a_secret_is_open(repo, name):
    write(repo / name, f"KEY={SENTINEL}\n")
    assert SENTINEL in ask(repo, "read_file", path=name)
    assert f"{name}:1: KEY={SENTINEL}" == ask(repo, "search_code", query=SENTINEL)


def test_a_hard_link_is_an_ordinary_file(repo, outside):
    try:
        os.link(outside, repo / "twin.txt")
    except OSError:
        pytest.skip("no hard links here")
    assert SENTINEL in ask(repo, "read_file", path="twin.txt")  # not covered, as tools.py says


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in the file system here")
def test_only_regular_files_are_opened(repo):
    os.mkfifo(repo / "pipe")
    link(repo / "to_pipe", "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        try:
            os.chdir(repo)  # a socket's address is short
            server.bind("sock")
        finally:
            os.chdir(here)
        for name in ("pipe", "to_pipe", "sock"):
            start = time.monotonic()
            assert "not a regular file" in ask(repo, "read_file", path=name)
            assert time.monotonic() - start < 1, "opening it waits for a writer"
        assert "RETRIES" in ask(repo, "search_code", query="RETRIES")
        assert "pipe" in ask(repo, "list_directory")


# --- read_file --------------------------------------------------------------------------------------
def test_a_short_file_comes_whole_and_unadorned(repo):
    assert read_file(repo, "settings.py") == 'DEFAULT_LANGUAGE = "fr"\nRETRIES = 3\n'
    assert read_file(repo, "settings.py", 2) == "RETRIES = 3\n"
    assert read_file(repo, "greeter/__init__.py") == "(empty file)"


def test_a_long_file_comes_in_whole_lines_and_says_how_to_go_on(repo):
    lines = [f"line {number} {'x' * (number % 97)}\n" for number in range(1, 3001)]
    write(repo / "long.txt", "".join(lines))
    got, start = [], 1
    while True:
        text = read_file(repo, "long.txt", start)
        body, _, note = text.rpartition("[")
        if not note.startswith("lines "):
            got.append(text)
            break
        assert len(body) <= tools.READ_CHARS and body.endswith("\n")
        assert f"lines {start} to " in note and "there are more" in note
        start = int(note.split("start_line=")[1].rstrip("]"))
        got.append(body)
    assert "".join(got) == "".join(lines) and len(got) > 3


@pytest.mark.parametrize("start", [0, -1, 4, 1200])
def test_a_line_that_is_not_there(repo, start):
    write(repo / "three.txt", "a\nb\nc\n")
    seen = ask(repo, "read_file", path="three.txt", start_line=start)
    assert seen.startswith("Error: ")
    assert "3 lines" in seen if start > 0 else "counts from 1" in seen


@pytest.mark.parametrize(
    "data, shown",
    [
        (b"caf\xe9\n", "caf�\n"),
        (b"\xef\xbb\xbfhello\n", "hello\n"),
        (b"a\r\nb\r\n", "a\nb\n"),
        ("naïve – 漢字 🙂\n".encode(), "naïve – 漢字 🙂\n"),
        (b"no newline at the end", "no newline at the end"),
        (b"form\x0cfeed \xe2\x80\xa8 line separator\n", "form\x0cfeed \u2028 line separator\n"),
    ],
)
def test_text_in_any_encoding_is_shown(repo, data, shown):
    write(repo / "text.txt", data)
    assert ask(repo, "read_file", path="text.txt") == shown


@pytest.mark.parametrize("data", [b"%PDF-1.4\x00\xff", bytes(range(256)) * 8, "wide".encode("utf-16")])
def test_a_binary_file_is_named_as_one(repo, data):
    write(repo / "blob.bin", data)
    seen = ask(repo, "read_file", path="blob.bin")
    assert seen.startswith("Error: ") and f"binary file of {len(data)} bytes" in seen and len(seen) < 100


def test_endless_lines_are_cut_and_can_be_passed(repo):
    write(repo / "wide.js", "x" * 1_000_000 + "\nlast\n")
    seen = read_file(repo, "wide.js")
    assert len(seen) < 17_000 and seen.endswith(
        "[line 1 is cut after 16000 characters; go on with start_line=2]"
    )
    assert read_file(repo, "wide.js", 2) == "last\n"


def test_a_huge_file_costs_no_more_than_its_window(repo):
    with open(repo / "huge.txt", "wb") as file:
        file.write(b"row\n" * 100_000)
        try:
            file.truncate(1 << 31)
        except OSError:
            pytest.skip("no sparse files here")
    start = time.process_time()
    seen = read_file(repo, "huge.txt")
    assert time.process_time() - start < 0.2
    assert "there are more" in seen and len(seen) < 17_000


def test_a_far_line_is_reached_in_blocks(repo):
    write(repo / "far.txt", b"row\n" * 5_000_000 + b"last\n")
    start = time.process_time()
    assert read_file(repo, "far.txt", 5_000_001) == "last\n"
    assert time.process_time() - start < 1
    assert read_file(repo, "far.txt", 4_999_999).startswith("row\nrow\nlast\n")
    with pytest.raises(ValueError, match="the file has 5000001 lines"):
        read_file(repo, "far.txt", 5_000_002)


def test_a_line_beyond_reach_is_an_error(repo, monkeypatch):
    monkeypatch.setattr(tools, "FARTHEST", 100_000)
    write(repo / "far.txt", b"row\n" * 100_000)
    assert "lies more than 100000 bytes into the file" in ask(
        repo, "read_file", path="far.txt", start_line=90_000
    )
    assert ask(repo, "read_file", path="far.txt", start_line=1000).startswith("row")


# --- list_directory ---------------------------------------------------------------------------------
def test_a_listing_is_sorted_and_marks_directories(repo):
    assert list_directory(repo) == "README.md\ngreeter/\nsettings.py"
    (repo / "empty").mkdir()
    assert list_directory(repo, "empty") == "(empty directory)"


@pytest.mark.parametrize("path", ["settings.py", "nope", "greeter/nope"])
def test_what_is_no_directory(repo, path):
    assert "not a directory" in ask(repo, "list_directory", path=path)


def test_a_large_directory_is_cut_with_the_number_left(repo):
    for number in range(450):
        (repo / f"f{number:03}").touch()
    lines = list_directory(repo).splitlines()
    assert len(lines) == 201 and lines[-1] == "[253 more entries are not shown]"
    assert lines[:2] == ["README.md", "f000"]


# --- search_code ------------------------------------------------------------------------------------
def test_hits_come_in_the_order_of_the_tree(repo):
    for name in ("b.py", "a/z.py", "a.py", "a/b/c.py", "a-b.py"):
        write(repo / name, "one\nneedle\nneedle twice needle\n")
    paths = [line.partition(":")[0] for line in search_code(repo, "needle").splitlines()]
    assert paths == [name for name in ("a/b/c.py", "a/z.py", "a-b.py", "a.py", "b.py") for _ in range(2)]
    assert "a.py:3: needle twice needle" in search_code(repo, "needle")


@pytest.mark.parametrize("query", ["run(", "a[0", "*args", "x = 1 + 2", "\\", "$x", "--help", "-v", "--pre=/bin/sh",
                                   "-f/etc/passwd", "(a+)+$", "^", ".*", "é", "🙂"])  # fmt: skip
def test_the_query_is_literal(repo, query):
    write(repo / "odd.txt", f"before\n  {query} after\n")
    assert search_code(repo, query).endswith(f"odd.txt:2:   {query} after")
    (repo / "odd.txt").unlink()
    assert "no line holds" in search_code(repo, query) or query in "^.*"


@pytest.mark.parametrize("query", ["", "  ", "\n", "\t"])
def test_a_blank_query_is_asked_for(repo, query):
    assert "query is empty" in ask(repo, "search_code", query=query)


@pytest.mark.parametrize("query", ["two\nlines", "a\r", "def f(\n"])
def test_a_query_of_several_lines_is_refused(repo, query):
    assert "several lines" in ask(repo, "search_code", query=query)


def test_case_counts_and_nothing_found_says_what_was_searched(repo):
    write(repo / "blob.bin", b"\0RETRIES")
    write(repo / "__pycache__" / "x.py", "retries")
    assert (
        search_code(repo, "retries")
        == "no line holds 'retries' (5 files searched, 1 skipped); try a shorter or another word"
    )


def test_lines_end_at_newlines_only(repo):
    write(repo / "ff.txt", b"one\x0cstill one\xe2\x80\xa8still\r\ntwo needle\r\n\x0cneedle\n")
    assert search_code(repo, "needle") == "ff.txt:2: two needle\nff.txt:3: \x0cneedle"


def test_a_line_is_cut_around_the_hit(repo):
    write(repo / "a.min.js", "x" * 500_000 + "stats" + "y" * 500_000)
    seen = search_code(repo, "stats")
    assert len(seen) < 250 and "stats" in seen and seen.count("…") == 2
    write(repo / "a.min.js", "stats" + "é" * 500)
    assert search_code(repo, "stats").startswith("a.min.js:1: stats")


def test_many_hits_are_cut_and_said_to_be(repo):
    write(repo / "many.txt", "hit\n" * 50)
    assert len(search_code(repo, "hit").splitlines()) == 50
    write(repo / "many.txt", "hit\n" * 51)
    assert "first 50 hits" in search_code(repo, "hit").splitlines()[50]


@pytest.mark.parametrize("folder", sorted(tools.SKIPPED_DIRS))
def test_caches_and_environments_are_not_searched(repo, folder):
    write(repo / folder / "x.py", SENTINEL)
    assert "no line holds" in search_code(repo, SENTINEL)


def test_files_over_4_mb_are_skipped_and_those_under_are_not(repo):
    write(repo / "large.txt", b"x\n" * 1_900_000 + b"needle\n")
    assert search_code(repo, "needle") == "large.txt:1900001: needle"
    write(repo / "large.txt", b"x\n" * 2_100_000 + b"needle\n")
    assert "1 skipped" in search_code(repo, "needle")


def test_one_unreadable_path_does_not_lose_the_hits(repo, monkeypatch):
    write(repo / "zz" / "x.py", "RETRIES")
    real_open, real_scandir = os.open, os.scandir

    def broken_open(path, *args, **kwargs):
        if str(path).endswith("words.py"):
            raise PermissionError(13, "no")
        return real_open(path, *args, **kwargs)

    def broken_scandir(path):
        if str(path).endswith("zz"):
            raise PermissionError(13, "no")
        return real_scandir(path)

    monkeypatch.setattr(os, "open", broken_open)
    monkeypatch.setattr(os, "scandir", broken_scandir)
    assert search_code(repo, "RETRIES") == "settings.py:2: RETRIES = 3"
    assert "2 skipped" in search_code(repo, "absent")


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="such names can't exist here")
def test_odd_names_cannot_break_the_format(repo):
    write(repo / "two\nlines.py", "needle")
    Path(os.fsdecode(os.fsencode(repo) + b"/bad\xff.py")).write_text("needle")
    write(repo / "back\\slash.py", "needle")
    for seen in (ask(repo, "search_code", query="needle"), ask(repo, "list_directory")):
        seen.encode()
        assert "two\\nlines.py" in seen and "back\\slash.py" in seen
    assert len(search_code(repo, "needle").splitlines()) == 3


def test_a_deep_tree_does_not_overflow(repo):
    deep = repo
    for _ in range(300):
        deep = deep / "d"
    try:
        write(deep / "x.py", "needle")
    except OSError:
        pytest.skip("paths are too short here")
    assert search_code(repo, "needle").endswith("x.py:1: needle")


# --- dispatch_tool ----------------------------------------------------------------------------------
def test_the_schemas_describe_the_tools():
    assert [schema["function"]["name"] for schema in TOOL_SCHEMAS] == list(TOOLS)
    for schema in TOOL_SCHEMAS:
        parameters = inspect.signature(TOOLS[schema["function"]["name"]]).parameters
        described = schema["function"]["parameters"]
        assert ["repo_root", *described["properties"]] == list(parameters)
        needed = [name for name, p in parameters.items() if p.default is p.empty and name != "repo_root"]
        assert described["required"] == needed


@pytest.mark.parametrize("name", ["", " ", "read_file ", "READ_FILE", "functions.read_file", None, 5, ["read_file"],
                                  "__class__", "dispatch_tool", "x" * 5000, "\ud800"])  # fmt: skip
def test_an_unknown_tool_is_answered_with_the_names_that_exist(repo, name):
    seen = dispatch_tool(name, {"path": "settings.py"}, repo)
    assert seen.startswith("Error: there is no tool") and "read_file, list_directory, search_code" in seen
    assert len(seen) < 400
    seen.encode()


@pytest.mark.parametrize("arguments", [{}, {"file": "a"}, {"path": None}, {"path": 5}, {"path": ["a"]}, {"path": {}},
                                       {"path": True}])  # fmt: skip
def test_a_missing_or_ill_typed_argument_is_named(repo, arguments):
    seen = dispatch_tool("read_file", arguments, repo)
    wanted = "must be of type string, not " if "path" in arguments else "is missing"
    assert seen.startswith(f"Error: argument 'path' {wanted}") and '{"path": "..."}' in seen


@pytest.mark.parametrize("start", ["2", True, 2.5, [], "x"])
def test_an_ill_typed_optional_argument_is_named_too(repo, start):
    assert f"'start_line' must be of type integer, not {json.dumps(start)}" in dispatch_tool(
        "read_file", {"path": "settings.py", "start_line": start}, repo
    )


@pytest.mark.parametrize("start", [None, 1, 1.0])
def test_an_optional_argument_may_be_null_or_a_whole_float(repo, start):
    assert dispatch_tool("read_file", {"path": "settings.py", "start_line": start}, repo).startswith(
        "DEFAULT"
    )


def test_arguments_that_are_no_object_are_never_run(repo):
    seen = dispatch_tool("list_directory", {MALFORMED: "broken at column 3"}, repo)
    assert seen.startswith("Error: the arguments are not a JSON object: broken at column 3")
    assert "settings.py" not in seen


def test_the_key_for_malformed_arguments_cannot_be_smuggled_in(repo):
    seen = ask(repo, "read_file", path="settings.py", **{MALFORMED: "\ud800" + "x" * 100_000})
    assert seen.startswith("Error: the arguments") and len(seen) < 1000
    seen.encode()


def test_no_argument_reaches_the_sandbox_parameter(repo, outside):
    smuggled = {"path": "secret.txt", "repo_root": str(outside.parent), "self": 1, "encoding": "utf8"}
    with pytest.raises(FileNotFoundError):
        dispatch_tool("read_file", smuggled, repo)
    assert "RETRIES" in dispatch_tool("read_file", smuggled | {"path": "settings.py"}, repo)


@pytest.mark.parametrize(
    "value, shown",
    [
        (None, "null"), (0, "0"), (True, "true"), (1.5, "1.5"), (b"caf\xe9", "caf�"), ([], "[]"), ({}, "{}"), ("", "(no output)"),
        ({"when": datetime(2026, 1, 2)}, '{"when": "2026-01-02 00:00:00"}'), ("\ud800", "?"),
    ],
)  # fmt: skip
def test_whatever_a_tool_returns_the_model_gets_text(repo, monkeypatch, value, shown):
    monkeypatch.setitem(TOOLS, "list_directory", lambda repo_root, path=".": value)
    assert dispatch_tool("list_directory", {}, repo) == shown


def test_a_result_has_bounded_length(repo, monkeypatch):
    monkeypatch.setitem(TOOLS, "list_directory", lambda repo_root, path=".": "x" * 100_000)
    seen = dispatch_tool("list_directory", {}, repo)
    assert len(seen) < 21_000 and seen.endswith("[cut: 80000 more characters]")


def test_an_error_in_a_tool_is_not_taken_for_a_wrong_call(repo, monkeypatch):
    def broken(repo_root, path="."):
        raise TypeError("boom")

    monkeypatch.setitem(TOOLS, "list_directory", broken)
    assert ask(repo, "list_directory") == "Error: boom"


def test_nothing_found_nothing_there_and_nothing_in_it_read_differently(repo):
    (repo / "empty").mkdir()
    seen = {
        ask(repo, "search_code", query=SENTINEL), ask(repo, "list_directory", path="empty"),
        ask(repo, "read_file", path="greeter/__init__.py"),
    }  # fmt: skip
    assert len(seen) == 3 and not any(text.startswith("Error") for text in seen)
