"""plans.py: how the keyword model goes about each kind of question.

A plan is a generator: it yields a thought and the tool calls of one turn, is sent their results in
order, and returns the answer. An answer names the lines it stands on, as ``path:line: text``; one
that found nothing says that it can't answer.
"""

import re
from collections.abc import Generator, Iterable
from dataclasses import replace
from typing import Any

from lab.question import Question, spellings, understand
from lab.source_lines import ASSIGNED, CONSTANT, DEFINED, LITERAL, SYMBOL, Hit, Page, Setting, about_itself
from lab.source_lines import block, closest, comment_above, docstring, either, indent, part_of, ranked
from lab.source_lines import settings, split_head, stem
from tools import MAX_HITS

SHOWN = 8  # lines an answer stands on
TOP = 120  # a line up to here is read from the top of its file
MAX_QUERY = 100
MAX_FOLDERS = 12  # looked into for a name
UNSURE = "I can't tell whether this answers the task; these lines"

Turns = Generator[tuple[str, list[tuple[str, dict]]], list[str], Any]


def plan_for(task: str) -> Turns:
    """The plan for ``task``, to be run as the module says."""
    question = understand(task)
    return _PLANS[question.kind](question)


# --- one turn each ----------------------------------------------------------------------------------
def _search(thought: str, *queries: str) -> Turns:
    """Search for each query; returns the hits, each once, and whether a search was cut off."""
    queries = tuple(query[:MAX_QUERY] for query in dict.fromkeys(queries) if query.strip())
    results = (yield thought, [("search_code", {"query": query}) for query in queries]) if queries else []
    found, cut = {}, False
    for result in results:
        hits = [re.fullmatch(r"(.+?):(\d+): (.*)", line) for line in result.split("\n")]
        found |= {Hit(hit[1], int(hit[2]), hit[3]): None for hit in hits if hit}
        cut = cut or len(hits) > MAX_HITS
    return list(found), cut


def _read(thought: str, path: str, line: int = 1) -> Turns:
    """Read ``path`` so that ``line`` is in view, from the top where that reaches it; returns a Page."""
    page = Page(path)
    for first in [1] * (line <= TOP) + [line - 10] * (line > 10):
        arguments = {"path": path, "start_line": first} if first > 1 else {"path": path}
        [result] = yield thought, [("read_file", arguments)]
        page = _page(path, result, first)
        if not page.lines or first <= line < first + len(page.lines):
            break
    return page


def _page(path: str, result: str, first: int = 1) -> Page:
    lines = [] if not result or result.startswith("Error: ") else result.split("\n")
    more = bool(lines) and lines[-1].startswith("[lines ")
    return Page(path, first, tuple(lines[:-1] if more or lines[-1:] == [""] else lines), more)


def _entries(*paths: str) -> Turns:
    """List each directory; returns the entries of each, None where there is no such directory."""
    results = yield f"I list {_quoted(paths)}.", [("list_directory", {"path": path}) for path in paths]
    return [None if not result or result.startswith("Error: ") else result.split("\n") for result in results]


def _find(wanted: str) -> Turns:
    """The first path, at most two levels deep, with the name of ``wanted`` (``name/``: a directory)."""
    [root] = yield from _entries(".")
    tops = [entry for entry in root or [] if entry.endswith("/")][:MAX_FOLDERS]
    listed = (yield from _entries(*(top.rstrip("/") for top in tops))) if tops else []
    paths = [*(root or []), *(top + name for top, names in zip(tops, listed) for name in names or [])]
    name = re.search(r"[^/]*/?$", wanted)[0].lower()
    return next((path for path in paths if f"/{path.lower()}".endswith(f"/{name}")), None)


# --- where a name is defined ------------------------------------------------------------------------
def _definitions(question: Question, values: bool = True) -> Turns:
    """The lines that define one of the names, likeliest first, assignments only if ``values``."""
    *qualifiers, _ = question.names[0].split(".") if question.exact and question.names else [""]
    targets = [name.rsplit(".", 1)[-1] for name in question.names]
    targets = [target for target in targets if target.isidentifier()][:4]
    if not targets:
        return []
    owners = [name for name in (*qualifiers, *question.context) if re.fullmatch(r"[A-Z]\w*", name)][:1]
    if question.exact:
        words = either(targets)
        turns = [[query for target in targets for query in _likely(target)[half]] for half in (0, 1)]
    else:
        words, turns = part_of(targets), [targets]
    turns[0] += [f"class {owner}" for owner in owners]
    for queries in turns if values else turns[:1]:
        hits, _ = yield from _search(f"I look for the definition of {_quoted(targets)}.", *queries)
        for shape in (DEFINED, ASSIGNED) if values else (DEFINED,):
            if found := [hit for hit in hits if re.match(shape.format(words), hit.text)]:
                starts = [hit for hit in hits if re.match(DEFINED.format(either(owners or [""])), hit.text)]
                return _inside_first(ranked(found, question), starts)
    return []


def _likely(name: str) -> tuple[list[str], list[str]]:
    """What to search for to find the definition of ``name``, by its look: at first, and after that."""
    code, value = [f"def {name}(", f"class {name}"], [f"{name} =", f"{name}:"]
    plain = name.lstrip("_")
    if plain.isupper() and len(plain) > 1:
        return value, code
    return (code, value) if plain[:1].islower() else ([code[1], value[0]], [code[0], value[1]])


def _inside_first(found: list[Hit], owners: list[Hit]) -> list[Hit]:
    """``found`` with the first line that stands inside one of the ``owners`` in front."""
    for owner in owners:
        for hit in sorted(found):
            if hit.path == owner.path and hit.line > owner.line and indent(hit.text) > indent(owner.text):
                return [hit, *(other for other in found if other != hit)]
    return found


def _define(question: Question) -> Turns:
    if not question.names:
        return (yield from _other(question))
    name = _quoted(question.names if question.exact else question.names[:1])
    if found := (yield from _definitions(question)):
        also = f", the likeliest of {len(found)} places" if len(found) > 1 else ""
        return _answer(f"{name} is defined at {found[0].path}:{found[0].line}{also}:", found)
    hits, _ = yield from _search(f"No definition of {name}. I look where it occurs.", *question.names)
    if hits:
        return _answer(f"I found no definition of {name}; it occurs in these lines:", ranked(hits, question))
    return _nothing(question.names) if question.exact else (yield from _other(question))


# --- who uses a name --------------------------------------------------------------------------------
def _uses(question: Question) -> Turns:
    names = question.names
    if not names:
        return (yield from _other(question))
    hits, cut = yield from _search(f"I look for {_quoted(names)}.", *names)
    if not hits and "." in names[0]:
        names = (names[0].rsplit(".", 1)[-1],)
        hits, cut = yield from _search(f"Not there; I look for {_quoted(names)}.", *names)
    if cut:
        queries = [shape.format(names[0]) for shape in ("import {}", "from {}", "{}(")]
        more, _ = yield from _search("There are more hits than a search shows; I narrow it down.", *queries)
        hits = list(dict.fromkeys(hits + more))
    word = either(names)
    hits = [hit for hit in hits if re.search(word, hit.text)]
    if not hits:
        return _nothing(names)
    uses = [hit for hit in hits if not re.match(DEFINED.format(word), hit.text)]
    imports = rf"\s*(?:from|import)\b.*{word}|\s+{word}(?: as \w+)?,?$"
    for verb, shape in (("import", imports), ("call", rf".*{word}\(")):
        if re.search(rf"\b{verb}(?:s|ed|er|ers)?\b", question.text):
            uses = [hit for hit in uses if re.match(shape, hit.text)] or uses
    if not uses:
        return _answer(f"I found no use of {_quoted(names)}, only where it is defined:", hits)
    files = {hit.path: hit for hit in reversed(uses)}
    count = f"{'at least ' * cut}{len(files)} file{'s' * (len(files) > 1)}"
    lead = f"{_quoted(names)} is used in {count}; the first line in each:"
    return _answer(lead, sorted(files.values()), 3 * SHOWN)


# --- what is in a directory, a file or a class ------------------------------------------------------
_ENDINGS = (
    ("directories|folders|subdirectories|subpackages", "/"),
    ("python|modules", ".py"),
    ("markdown", ".md"),
    ("json", ".json"),
    ("toml", ".toml"),
    ("text", ".txt"),
)


def _list(question: Question) -> Turns:
    wanted = (*question.paths, *question.names, ".")[0].rstrip("/") or "."
    [entries] = yield from _entries(wanted)
    if entries is None:
        found = yield from _find(f"{wanted}/")
        if not found:
            return f"I can't answer this: I found no directory `{wanted}`."
        wanted = found.rstrip("/")
        [entries] = yield from _entries(wanted)
    names = [entry for entry in entries or [] if entry != "(empty directory)"]
    note = [names.pop()] if names and re.fullmatch(r"\[\d+ more entries are not shown\]", names[-1]) else []
    ending = next((ending for words, ending in _ENDINGS if re.search(rf"\b(?:{words})\b", question.what)), "")
    if ending:
        names = [name for name in names if name.endswith(ending)]
    elif "files" in question.what:
        names = [name for name in names if not name.endswith("/")]
    place = "The root" if wanted == "." else f"`{wanted}/`"
    kind = question.what.split()[-1] if question.what else "entries"
    return "\n".join([f"{place} holds {len(names)} {kind}: {', '.join(names)}", *note])


def _members(question: Question) -> Turns:
    kind = question.what.split()[-1]
    if question.paths:
        where = question.paths[0]
        page = yield from _read(f"I read {where}.", where)
        hits, depth = page.hits(), 0
    else:
        found = yield from _definitions(question)
        if not found:
            return _nothing(question.names or question.words)
        where = _quoted(question.names[:1])
        page = yield from _read(f"I read {found[0].path}, where {where} is defined.", *found[0][:2])
        hits = block(page, found[0].line)[1:]
        depth = min((indent(hit.text) for hit in hits if re.match(DEFINED.format(""), hit.text)), default=0)
    cut = page.more and hits[-1:] == page.hits()[-1:]
    shape = r"\s*class\b" if kind == "classes" else r"\s*(?:async\s+)?def\b"
    hits = [hit for hit in hits if re.match(shape, hit.text) and indent(hit.text) == depth]
    if not hits:
        return f"I can't answer this: I found no {kind} in {where}."
    seen = f", up to line {page.first + len(page.lines) - 1} of the file" if cut else ""
    return _answer(f"{len(hits)} {kind} of {where}{seen}:", hits, 5 * SHOWN)


# --- what something does ----------------------------------------------------------------------------
def _does(question: Question) -> Turns:
    if question.paths and not question.names:
        return (yield from _module(question, *question.paths[:2]))
    found = yield from _definitions(question)
    if not found and question.exact and question.names:
        path = question.names[0].replace(".", "/")
        stems = dict.fromkeys([path, path.rsplit("/", 1)[-1]])
        paths = [f"{stem}{end}" for stem in stems for end in (".py", "/__init__.py")]
        return (yield from _module(question, *paths))
    if not found:
        return (yield from _other(question))
    path, line, _ = found[0]
    page = yield from _read(f"I read what stands at {path}:{line}.", path, line)
    name, head, body = _quoted(question.names[:1]), *split_head(block(page, line))
    if not head:
        return _answer(f"{name} is defined here, out of my view:", found)
    if said := docstring(body):
        told = "its docstring says"
    elif said := comment_above(page, line):
        told = "the comment above it says"
    else:
        told, said = "without a docstring, it begins", body[: SHOWN // 2]
    asked = [word for word in ("return", "raise", "yield") if re.search(rf"\b{word}", question.text)]
    more = [hit for hit in body if asked and re.match(rf"\s*(?:{'|'.join(asked)})\b", hit.text)]
    return _answer(f"{name} is defined at {path}:{line}; {told}:", [*head[:SHOWN], *said, *more], 3 * SHOWN)


def _module(question: Question, *paths: str) -> Turns:
    """What the first of ``paths`` that is there, or a file of that name elsewhere, says about itself."""
    results = yield f"I try {_quoted(paths)}.", [("read_file", {"path": path}) for path in paths]
    pages = [page for page in map(_page, paths, results) if page.lines]
    if not pages and (found := (yield from _find(paths[0]))):
        pages = [(yield from _read(f"I read `{found}`.", found))]
    if not pages:
        return (yield from _other(question))
    return _answer(f"`{pages[0].path}` says about itself:", about_itself(pages[0]))


def _about(question: Question) -> Turns:
    [entries] = yield from _entries(".")
    order = ("readme", "__init__.py", "pyproject.toml", "package.json", "setup.cfg")
    found = [entry for name in order for entry in entries or [] if entry.lower().startswith(name)]
    return (yield from _module(question, found[0])) if found else (yield from _other(question))


# --- what something defaults to ---------------------------------------------------------------------
def _default(question: Question) -> Turns:
    if not question.names:
        return (yield from _other(question))
    *qualifiers, name = question.names[0].split(".") if question.exact else [question.names[0]]
    name = name.lstrip("-").replace("-", "_")
    owners = [owner.rsplit(".", 1)[-1] for owner in (*qualifiers, *question.context)]
    owners = [owner for owner in owners if owner.isidentifier()]
    answer, mentions = (yield from _default_of(question, owners[0], name)) if owners else (None, [])
    if answer:
        return answer
    derived = spellings([question.what or "default", question.names[0]])[:2]
    if question.exact:
        direct = [f"{name}=", f"{name} =", f"{name}:", f'"{name}"'][: 3 + name.isupper()]
        rounds = [(direct, either([name, *spellings([name])])), (derived, part_of(derived))]
    else:
        rounds = [(question.names, part_of(question.names)), (derived, part_of(derived))]
    written = not question.exact or not name.islower() or "_" in name or f"`{name}`" in question.text
    for queries, words in rounds if written else rounds[::-1]:
        hits, _ = yield from _search(f"I look for what sets {_quoted(question.names[:1])}.", *queries)
        made = [hit for hit in ranked(hits, question) if re.match(DEFINED.format(words), hit.text)]
        if queries is derived and made and not made[0].text.lstrip().startswith("class"):
            return (yield from _computed(question, made[0], []))
        found = settings(hits, question, words)
        if queries is not derived and not (question.exact and written):
            found = [setting for setting in found if setting.plain and not mentions]
        if found:
            seen = not owners or owners[0].lower() in re.split(r"[/._]", found[0].hit.path.lower())
            lead = "" if seen else f"I saw no value of it in `{owners[0]}`. Elsewhere "
            return lead + (yield from _followed(question, found, []))
    if mentions:
        asked = _quoted(question.names[:1])
        return _answer(f"I found nothing that sets {asked}; these lines mention it:", mentions)
    return (yield from _other(question))


def _default_of(question: Question, owner: str, name: str) -> Turns:
    """The answer that the definition of ``owner`` gives, or None; and its lines that mention ``name``."""
    found = yield from _definitions(replace(question, names=(owner,), exact=True), values=False)
    page, mentions = Page(), []
    found = [hit for hit in found if hit.path == found[0].path]
    for path, line, _ in found[:3]:  # the first may be an overload, without a value
        if not block(page, line):
            page = yield from _read(f"I read {path}, where `{owner}` stands.", path, line)
        head, body = split_head(block(page, line))
        words = either([name, *spellings([name])])
        if values := settings(head, question, words) or settings(body, question, words):
            return (yield from _followed(question, values, head[:1])), []
        mentions += [hit for hit in body if re.search(rf"\b{stem(name)}", hit.text)]
    return None, mentions and [*head[:1], *mentions]


def _followed(question: Question, found: list[Setting], support: list[Hit]) -> Turns:
    """Answer with the likeliest of ``found``; a value that is itself a name is looked up first."""
    hit, value = found[0].hit, found[0].value
    lead = f"{_quoted(question.names[:1])} is set to {value} at {hit.path}:{hit.line}"
    if value.endswith(("(", "[", "{")):
        page = yield from _read(f"The value goes on; I read {hit.path}.", hit.path, hit.line)
        return _answer(f"{lead}:", [*support, hit, *split_head(page.hits(hit.line))[0]])
    symbol, call = SYMBOL.fullmatch(value), re.fullmatch(r"(?:\w+\.)*(\w+)\(\)", value)
    if symbol and not LITERAL.match(value):
        name = symbol[1]
        hits, _ = yield from _search(f"{value} is a name; I look for its value.", f"{name} =", f"{name}:")
        if values := settings([other for other in hits if other != hit], question, either([name])):
            return _answer(f"{lead}, which is {values[0].value}:", [*support, hit, values[0].hit])
    elif call:
        hits, _ = yield from _search(f"{value} is computed; I look for how.", f"def {call[1]}(")
        if hits:
            return (yield from _computed(question, ranked(hits, question)[0], [*support, hit]))
    others = [] if support else [setting.hit for setting in found[1:] if setting.hit != hit]
    also = "; lower down, other places that set it" if others else ""
    return _answer(f"{lead}{also}:", [*support, hit, *others])


def _computed(question: Question, maker: Hit, support: list[Hit]) -> Turns:
    """Answer with the function that computes the value, and the constants of its file that it uses."""
    page = yield from _read(f"I read how `{maker.path}` computes it.", maker.path, maker.line)
    head, body = split_head(block(page, maker.line) or [maker])
    used = set(re.findall(r"\b_*[A-Z][A-Z0-9_]{2,}\b", "\n".join(hit.text for hit in body)))
    constants = [hit for hit in page.hits() if (name := CONSTANT.match(hit.text)) and name[1] in used]
    values = [hit for constant in constants for hit in split_head(page.hits(constant.line))[0][:SHOWN]]
    returns = [hit for hit in body if re.match(r"\s*(?:return|yield)\b", hit.text)]
    place = f"{_quoted(question.names[:1])} is computed at {maker.path}:{maker.line}"
    lead = f"{place}; what it returns and the constants it uses:"
    return _answer(lead, [*support, *head, *docstring(body), *returns, *values], 3 * SHOWN)


# --- everything else --------------------------------------------------------------------------------
def _other(question: Question) -> Turns:
    """The lines that hold most of the task's words: of the file it names, else of what searches turn up."""
    words = sorted((word for word in question.words if len(word) > 2), key=lambda word: (-len(word), word))
    if not (question.names or words):
        return "I can't answer this: the task names nothing to look for. I only search for words."
    for path in [path for path in question.paths if "." in path][:1]:
        page = yield from _read(f"I read {path}.", path)
        if not page.lines and (found := (yield from _find(path))):
            page = yield from _read(f"I read {found}.", found)
        if near := closest(page.hits(), question):
            return _answer(f"{UNSURE} of `{page.path}` share most of its words:", near[:SHOWN])
    pairs = [pair for pair in zip(question.words, question.words[1:]) if not {*pair} & {*question.names}]
    pairs = ["_".join(pair).lower() for pair in pairs]
    first = [*question.names[:2], *pairs][:3]
    hits, _ = yield from _search(f"I look for {_quoted(first)}.", *first)
    named = [hit for hit in hits if any(name in hit.text for name in question.names)]
    if question.exact and question.names and question.kind != "other" and not named:
        return _nothing(question.names)
    then = [pair.upper() for pair in pairs if any(pair in hit.text for hit in hits)][:1]
    then += [stem(word) for word in words if word not in question.names]
    if len(named) < 3:
        more, _ = yield from _search(f"I look for {_quoted(then[:3])}.", *then[:3])
        hits = list(dict.fromkeys(hits + more))
    best = closest(hits, question)
    if not best:
        return _nothing(question.names or question.words)
    path, line, _ = best[0]
    page = yield from _read(f"I read around the closest line, {path}:{line}.", path, line)
    near = closest([hit for hit in page.hits(line - 10) if hit.line < line + 20], question)
    shown = list(dict.fromkeys(near[: SHOWN // 2] + best))[:SHOWN]
    return _answer(f"{UNSURE} share most of its words:", shown)


# --- how answers are worded -------------------------------------------------------------------------
def _quoted(names: Iterable[str]) -> str:
    return " or ".join(f"`{name[:MAX_QUERY]}`" for name in names)


def _answer(lead: str, hits: list[Hit], most: int = SHOWN) -> str:
    hits = list(dict.fromkeys(hits))
    rest = [f"(and {len(hits) - most} more)"] * (len(hits) > most)
    lines = [f"{hit.path}:{hit.line}: {hit.text.strip()[:200]}" for hit in hits[:most]]
    return "\n".join([lead, *lines, *rest])


def _nothing(tried: Iterable[str]) -> str:
    looked = _quoted([*tried][:5]) or "it"
    return f"I can't answer this: I found nothing for {looked}. I only search for words."


_PLANS = {
    "about": _about,
    "uses": _uses,
    "define": _define,
    "members": _members,
    "list": _list,
    "default": _default,
    "does": _does,
    "other": _other,
}
