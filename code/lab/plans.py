"""plans.py: how the keyword model goes about each kind of question.

A plan is a generator: it yields a thought and the tool calls of one turn, is sent their results in
order, and returns the answer. An answer names the lines it stands on, as ``path:line: text``; one
that found nothing says that it can't answer.
"""

import re
from collections.abc import Generator
from typing import Any, NamedTuple

from lab.question import Question, spellings, understand
from tools import MAX_HITS

SHOWN = 8  # lines an answer stands on
TOP = 120  # a line up to here is read from the top of its file
MAX_QUERY = 100
MAX_FOLDERS = 12  # looked into for a name
HEAD = 60  # lines that the head of a definition may take

Turns = Generator[tuple[str, list[tuple[str, dict]]], list[str], Any]

_HIT = re.compile(r"(.+?):(\d+): (.*)")
_DEFINED = (
    r"\s*(?:(?:export|public|private|static|async|pub|default|abstract|final)\s+)*"
    r"(?:def|class|function|func|fn|const|let|var|struct|type|interface|enum|trait|record)\s+({0})"
)
_ASSIGNED = r"\s*(?:self\.|cls\.)?(?:{0})\s*(?::[^=]*)?=(?!=)|\s+(?:{0})\s*:\s*[A-Za-z][\w\[\]., |]*$"
_SET = (
    r"(?:(?<![\w.\"'])|(?<=self\.)|(?<=cls\.))({0})\s*(?::\s*[^=#():]+?)?\s*=(?!=)\s*(\S.*)"
    r"|[\"']({0})[\"']\s*(?::\s*|,(?:.*,)?\s*)(\S.*)"
)
_LITERAL = re.compile(r"[-+]?\.?\d|[rbuf]?[\"']|(?:None|True|False|true|false|null)\b|[\[{(]")
_SYMBOL = re.compile(r"(?:\w+\.)*([^\W\d]\w*)")
_GETTER = re.compile(r"[\w.]*(?:getenv|environ\.get|get|[Ff]ield|Option|Argument)\(")
_PROSE = (".md", ".rst", ".txt", ".json", ".jsonl", ".lock", ".html", ".svg", ".csv", ".ipynb")
_ASIDE = frozenset(
    "test tests testing doc docs example examples bench benchmarks vendor _vendor third_party".split()
)


class Hit(NamedTuple):
    """One line of a file."""

    path: str
    line: int
    text: str


class Page(NamedTuple):
    """What `read_file` showed of a file: its lines from number ``first`` on, and whether more follow."""

    path: str
    first: int
    lines: list[str]
    more: bool = False

    def hits(self, start: int = 1) -> list[Hit]:
        """The lines from number ``start`` on."""
        return [
            Hit(self.path, number, text)
            for number, text in enumerate(self.lines, self.first)
            if number >= start
        ]


class Setting(NamedTuple):
    """A line that gives a name a value, how likely that is a default, and whether the value says something itself."""

    hit: Hit
    value: str
    weight: int
    sure: bool


def plan_for(task: str) -> Turns:
    """The plan for ``task``, to be run as the module says."""
    question = understand(task)
    return _PLANS[question.kind](question)


def answer_from_text(task: str) -> str:
    """Answer the first line of ``task`` from its other lines alone."""
    asked, _, text = task.partition("\n")
    question = understand(asked)
    hits = Page("prompt", 2, text.split("\n")).hits()
    defined = re.compile(_DEFINED.format(_either(question.names)))
    found = [hit for hit in hits if question.names and defined.match(hit.text)]
    if question.kind == "default" and question.names:
        found = [setting.hit for setting in _settings(hits, question, _either(question.names))] or found
    found = found or _closest(hits, question)
    return _answer("The lines of the text that fit best:", found) if found else _nothing(question.words)


# One turn each.


def _search(thought: str, *queries: str) -> Turns:
    """Search for each query; returns the hits, each once, and whether a search was cut off."""
    calls = [
        ("search_code", {"query": query[:MAX_QUERY]}) for query in dict.fromkeys(queries) if query.strip()
    ]
    results = (yield thought, calls) if calls else []
    found = [
        [Hit(m[1], int(m[2]), m[3]) for m in map(_HIT.fullmatch, result.split("\n")) if m]
        for result in results
    ]
    return list(dict.fromkeys(hit for hits in found for hit in hits)), any(
        len(hits) >= MAX_HITS for hits in found
    )


def _read(thought: str, path: str, line: int = 1) -> Turns:
    """Read ``path`` so that ``line`` is in view, from the top where that reaches it; returns a Page."""
    page = Page(path, 1, [])
    for first in [1] * (line <= TOP) + [line - 10] * (line > 10):
        arguments = {"path": path, "start_line": first} if first > 1 else {"path": path}
        [result] = yield thought, [("read_file", arguments)]
        lines = [] if not result or result.startswith("Error: ") else result.split("\n")
        more = bool(lines) and lines[-1].startswith("[lines ")
        page = Page(path, first, lines[:-1] if more or lines[-1:] == [""] else lines, more)
        if not lines or first <= line < first + len(page.lines):
            break
    return page


def _entries(*paths: str) -> Turns:
    """List each directory in one turn; returns for each its entries, None where there is no such directory."""
    results = yield f"I list {_quoted(paths)}.", [("list_directory", {"path": path}) for path in paths]
    return [None if not result or result.startswith("Error: ") else result.split("\n") for result in results]


def _find(wanted: str) -> Turns:
    """The paths that end in the name of ``wanted``, down to two levels; a directory's name ends with ``/``."""
    [root] = yield from _entries(".")
    tops = [entry for entry in root or [] if entry.endswith("/")][:MAX_FOLDERS]
    listed = (yield from _entries(*(top.rstrip("/") for top in tops))) if tops else []
    paths = [*(root or []), *(top + name for top, names in zip(tops, listed) for name in names or [])]
    name = re.search(r"[^/]*/?$", wanted)[0].lower()
    return [path for path in paths if f"/{path.lower()}".endswith(f"/{name}")][:1]


# Where a name is defined.


def _definitions(question: Question, values: bool = True) -> Turns:
    """The lines that define one of the names, likeliest first, assignments if ``values``; ``[]`` when none does."""
    owners = [part for name in question.names[:1] if question.exact for part in name.split(".")[:-1]]
    targets = [name.rsplit(".", 1)[-1] for name in question.names]
    targets = [target for target in targets if target.isidentifier()][:4]
    if not targets:
        return []
    owners = [owner for owner in (*owners, *question.context) if owner.isidentifier() and owner[0].isupper()][
        :1
    ]
    words = _either(targets)
    if question.exact:
        turns = [[query for target in targets for query in _likely(target)[half]] for half in (0, 1)]
    else:
        turns, words = [targets], rf"\w*(?:{words})\w*"
    turns[0] += [f"class {owner}" for owner in owners]
    for queries in turns if values else turns[:1]:
        hits, _ = yield from _search(f"I look for the definition of {_quoted(targets)}.", *queries)
        for shape in (_DEFINED, _ASSIGNED) if values else (_DEFINED,):
            if found := [hit for hit in hits if re.match(shape.format(words), hit.text)]:
                starts = [hit for hit in hits if owners and re.match(_DEFINED.format(owners[0]), hit.text)]
                return _members_first(_ranked(found, question), starts)
    return []


def _likely(name: str) -> tuple[list[str], list[str]]:
    """What to search for to find the definition of ``name``, by its look: at first, and after that."""
    code, value = [f"def {name}(", f"class {name}"], [f"{name} =", f"{name}:"]
    plain = name.lstrip("_")
    if plain.isupper() and len(plain) > 1:
        return value, code
    return (code, value) if plain[:1].islower() else ([code[1], value[0]], [code[0], value[1]])


def _members_first(found: list[Hit], owners: list[Hit]) -> list[Hit]:
    """``found`` with the first line that stands inside one of the ``owners`` in front."""
    inside = [
        hit
        for owner in owners
        for hit in sorted(found)
        if hit.path == owner.path and hit.line > owner.line and _indent(hit.text) > _indent(owner.text)
    ][:1]
    return inside + [hit for hit in found if hit not in inside]


def _define(question: Question) -> Turns:
    if not question.names:
        return (yield from _other(question))
    name = _quoted(question.names if question.exact else question.names[:1])
    if found := (yield from _definitions(question)):
        also = f", the likeliest of {len(found)} places" if len(found) > 1 else ""
        return _answer(f"{name} is defined at {found[0].path}:{found[0].line}{also}:", found)
    hits, _ = yield from _search(f"No definition of {name}. I look where it occurs.", *question.names)
    if hits:
        return _answer(f"I found no definition of {name}; it occurs in these lines:", _ranked(hits, question))
    return _nothing(question.names) if question.exact else (yield from _other(question))


# Who uses a name.


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
    word = _either(names)
    hits = [hit for hit in hits if re.search(word, hit.text)]
    if not hits:
        return _nothing(names)
    uses = [hit for hit in hits if not re.match(_DEFINED.format(word), hit.text)]
    for verb, shape in (
        ("import", rf"\s*(?:from|import)\b.*{word}|\s+{word}(?: as \w+)?,?$"),
        ("call", rf".*{word}\("),
    ):
        if re.search(rf"\b{verb}(?:s|ed|er|ers)?\b", question.text):
            uses = [hit for hit in uses if re.match(shape, hit.text)] or uses
    if not uses:
        return _answer(f"I found no use of {_quoted(names)}, only where it is defined:", hits)
    files = {hit.path: hit for hit in reversed(uses)}
    count = f"{'at least ' * cut}{len(files)} file{'s' * (len(files) > 1)}"
    lead = f"{_quoted(names)} is used in {count}; the first line in each:"
    return _answer(lead, sorted(files.values()), 3 * SHOWN)


# What is in a directory, a file or a class.

_ENDINGS = (
    (r"directories|folders|subdirectories|subpackages", "/"),
    (r"python|modules", ".py"),
    (r"markdown", ".md"),
    (r"json", ".json"),
    (r"toml", ".toml"),
    (r"text", ".txt"),
)


def _list(question: Question) -> Turns:
    wanted = (*question.paths, *question.names, ".")[0].rstrip("/") or "."
    [entries] = yield from _entries(wanted)
    if entries is None:
        found = yield from _find(f"{wanted}/")
        if not found:
            return f"I can't answer this: I found no directory `{wanted}`."
        wanted = found[0].rstrip("/")
        [entries] = yield from _entries(wanted)
    notes = [entry for entry in entries or [] if entry.startswith("[")]
    names = [entry for entry in entries or [] if entry not in notes and entry != "(empty directory)"]
    ending = next((ending for words, ending in _ENDINGS if re.search(rf"\b(?:{words})\b", question.what)), "")
    if ending:
        names = [name for name in names if name.endswith(ending)]
    elif "files" in question.what:
        names = [name for name in names if not name.endswith("/")]
    place = "The root" if wanted == "." else f"`{wanted}/`"
    kind = question.what.split()[-1] if question.what else "entries"
    return "\n".join([f"{place} holds {len(names)} {kind}: {', '.join(names)}", *notes])


def _members(question: Question) -> Turns:
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
        hits = _block(page, found[0].line)[1:]
        page = page._replace(more=page.more and hits[-1:] == page.hits()[-1:])
        depth = min((_indent(hit.text) for hit in hits if re.match(_MEMBER, hit.text)), default=0)
    shape = r"\s*class\b" if question.what.endswith("classes") else r"\s*(?:async\s+)?def\b"
    hits = [hit for hit in hits if re.match(shape, hit.text) and _indent(hit.text) == depth]
    kind = question.what.split()[-1]
    if not hits:
        return f"I can't answer this: I found no {kind} in {where}."
    seen = f", up to line {page.first + len(page.lines) - 1} of the file" if page.more else ""
    return _answer(f"{len(hits)} {kind} of {where}{seen}:", hits, 5 * SHOWN)


_MEMBER = r"\s*(?:async\s+)?(?:def|class)\b"


# What something does.


def _does(question: Question) -> Turns:
    if question.paths and not question.names:
        return (yield from _module(question, *question.paths[:2]))
    found = yield from _definitions(question)
    if not found and question.exact and question.names:
        stem = question.names[0].replace(".", "/")
        stems = dict.fromkeys([stem, stem.rsplit("/", 1)[-1]])
        paths = [path for stem in stems for path in (f"{stem}.py", f"{stem}/__init__.py")]
        return (yield from _module(question, *paths))
    if not found:
        return (yield from _other(question))
    path, line, _ = found[0]
    page = yield from _read(f"I read what stands at {path}:{line}.", path, line)
    name, block = _quoted(question.names[:1]), _block(page, line)
    if not block:
        return _answer(f"{name} is defined here, out of my view:", found)
    head, body = _split_head(block)
    said = _docstring(body)
    comment = [] if said else _comment_above(page, line)
    told = (
        "its docstring says"
        if said
        else "the comment above it says"
        if comment
        else "without a docstring, it begins"
    )
    asked = [word for word in ("return", "raise", "yield") if re.search(rf"\b{word}", question.text)]
    more = [
        hit for hit in body if hit not in said and any(re.match(rf"\s*{word}\b", hit.text) for word in asked)
    ]
    shown = comment + head[:SHOWN] + (said or body[: SHOWN // 2] * (not comment)) + more
    return _answer(f"{name} is defined at {path}:{line}; {told}:", shown, 3 * SHOWN)


def _module(question: Question, *paths: str) -> Turns:
    """What the first of ``paths`` that is there, or one of that name elsewhere, says about itself."""
    results = yield f"I try {_quoted(paths)}.", [("read_file", {"path": path}) for path in paths]
    if all(not result or result.startswith("Error: ") for result in results):
        paths = yield from _find(paths[0])
        results = (yield f"I read {_quoted(paths)}.", [("read_file", {"path": paths[0]})]) if paths else []
    for path, result in zip(paths, results):
        if result and not result.startswith("Error: "):
            hits = Page(path, 1, result.split("\n")).hits()
            start = next(
                (n for n, hit in enumerate(hits) if hit.text.strip() and not hit.text.startswith("#")), 0
            )
            return _answer(f"`{path}` says about itself:", _docstring(hits[start:]) or _prose(hits))
    return (yield from _other(question))


def _about(question: Question) -> Turns:
    [entries] = yield from _entries(".")
    order = ("readme", "__init__.py", "pyproject.toml", "package.json", "setup.cfg")
    found = [entry for name in order for entry in entries or [] if entry.lower().startswith(name)]
    return (yield from _module(question, found[0])) if found else (yield from _other(question))


def _block(page: Page, line: int) -> list[Hit]:
    """The definition that begins at ``line``, as far as the page shows it; ``[]`` when out of view."""
    hits = page.hits(line)
    if not hits or hits[0].line != line:
        return []
    head, body = _split_head(hits)
    depth = _indent(hits[0].text)
    end = next(
        (n for n, hit in enumerate(body) if hit.text.strip() and _indent(hit.text) <= depth), len(body)
    )
    return head + body[:end]


def _split_head(hits: list[Hit]) -> tuple[list[Hit], list[Hit]]:
    """The head of a definition, up to the line that closes its brackets, and the rest."""
    depth = 0
    for number, hit in enumerate(hits[:HEAD], 1):
        code = re.sub(r"\"[^\"]*\"|'[^']*'|#.*", "", hit.text)
        depth += sum(map(code.count, "([{")) - sum(map(code.count, ")]}"))
        if depth <= 0:
            return hits[:number], hits[number:]
    return hits[:1], hits[1:]


def _docstring(body: list[Hit]) -> list[Hit]:
    """The first paragraph of the docstring at the start of ``body``; ``[]`` when there is none."""
    body = [hit for hit in body[:1] if hit.text.strip()] + body[1 : 2 * SHOWN]
    opening = re.match(r"\s*[rRuU]?(\"\"\"|'''|\"|')", body[0].text) if body else None
    if not opening:
        return []
    said = []
    for number, hit in enumerate(body):
        text = hit.text[opening.end() :] if number == 0 else hit.text
        if said and not text.strip():
            break
        if text.strip():
            said.append(hit)
        if opening[1] in text:
            break
    return said


def _comment_above(page: Page, line: int) -> list[Hit]:
    comment: list[Hit] = []
    for hit in reversed([hit for hit in page.hits() if hit.line < line]):
        if not re.match(r"\s*(?:#|//|@)", hit.text):
            break
        comment.insert(0, hit)
    return [hit for hit in comment if not hit.text.lstrip().startswith("@")]


def _prose(hits: list[Hit]) -> list[Hit]:
    """The first lines that are neither blank, comments, badges, markup nor fences."""
    if hits and hits[0].text.startswith("<!--"):
        hits = hits[next((n for n, hit in enumerate(hits, 1) if "-->" in hit.text), 0) :]
    return [
        hit
        for hit in hits
        if hit.text.strip() and not re.match(r"\s*(?:<|\[?!\[|```|#!|---|===|[{}]$)", hit.text)
    ][: SHOWN // 2]


# What something defaults to.


def _default(question: Question) -> Turns:
    if not question.names:
        return (yield from _other(question))
    *qualifiers, name = question.names[0].split(".") if question.exact else [question.names[0]]
    name = name.lstrip("-").replace("-", "_")
    owners = [
        part
        for owner in (*qualifiers, *question.context)
        for part in owner.split(".")[-1:]
        if part.isidentifier()
    ]
    answer, mentions = (yield from _default_of(question, owners[0], name)) if owners else (None, [])
    if answer:
        return answer
    derived = [
        spelt for stem in question.names[:1] for spelt in spellings([question.what or "default", stem])[:2]
    ]
    written = [name, *spellings([name])] if question.exact else list(question.names)
    direct = (
        [f"{name}=", f"{name} =", f"{name}:", f'"{name}"'][: 3 + name.isupper()]
        if question.exact
        else written
    )
    looks_written = question.exact and (
        f"`{question.names[0]}`" in question.text or not name.islower() or "_" in name
    )
    rounds = [(direct, _either(written)), (derived, rf"\w*(?:{'|'.join(derived)})\w*")]
    if not question.exact:
        rounds[0] = (direct, rf"\w*(?:{'|'.join(written)})\w*")
    for queries, words in rounds if looks_written or not question.exact else rounds[::-1]:
        hits, _ = yield from _search(f"I look for what sets {_quoted(question.names[:1])}.", *queries)
        makers = [hit for hit in _ranked(hits, question) if re.match(_DEFINED.format(words), hit.text)]
        makers = [hit for hit in makers if queries is derived and not hit.text.lstrip().startswith("class")]
        if makers:
            return (yield from _computed(question, makers[0]))
        settings = _settings(hits, question, words)
        if queries is direct and not looks_written:
            settings = [setting for setting in settings if setting.sure and not mentions]
        if settings:
            return (yield from _followed(question, settings))
    if mentions:
        return _answer(
            f"I found nothing that sets {_quoted(question.names[:1])}; these lines mention it:", mentions
        )
    return (yield from _other(question))


def _default_of(question: Question, owner: str, name: str) -> Turns:
    """The answer that the definition of ``owner`` gives, or None; and its lines that mention ``name``."""
    asked = Question(
        question.kind, question.text, (owner,), True, question.context, question.paths, question.words
    )
    found = yield from _definitions(asked, values=False)
    mentions: list[Hit] = []
    page = Page("", 1, [])
    for path, line, _ in found[:3]:  # the first may be an overload, without a value
        if path != page.path or not _block(page, line):
            page = yield from _read(f"I read {path}, where `{owner}` stands.", path, line)
        head, body = _split_head(_block(page, line)) if _block(page, line) else ([], [])
        words = _either([name, *spellings([name])])
        if settings := _settings(head, question, words) or _settings(body, question, words):
            return (yield from _followed(question, settings, head[:1])), []
        mentions += head[:1] + [hit for hit in body if re.search(rf"\b{_stem(name)}", hit.text)]
        if path != found[-1].path:
            break
    return None, mentions[1:] and mentions


def _settings(hits: list[Hit], question: Question, words: str) -> list[Setting]:
    """The lines of ``hits`` that give a name that matches ``words`` a value, likeliest default first."""
    shape, found = re.compile(_SET.format(words)), []
    for hit in hits:
        for match in shape.finditer(hit.text):
            name, value = (match[1], match[2]) if match[1] else (match[3], match[4])
            value = _first_value(value)
            symbol = _SYMBOL.fullmatch(value)
            if value in ("", "...") or (symbol and symbol[1] == name and match[1]):
                continue  # f(name=name) says nothing
            kind = 4 if _LITERAL.match(value) else 3 if _GETTER.match(value) else 2 if symbol else 0
            start = hit.text.lstrip()
            leads = start.startswith(("def ", "async def ", name))
            weight = kind + (2 + 2 * (start == hit.text)) * leads - (not leads)
            weight -= 6 * start.startswith(("#", ">>>", "...", "*", "//"))
            weight += _weight(hit.path, question) - (match[1] is None) + ("default" in name.lower())
            found.append(Setting(hit, value, weight, kind > 0))
    return sorted(found, key=lambda setting: (-setting.weight, setting.hit.path.count("/")))


def _first_value(text: str) -> str:
    """``text`` up to the comma, bracket or comment that ends its first expression."""
    depth, quote = 0, ""
    for number, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}" or (char in ",#;" and not depth):
            depth -= 1
            if depth < 0:
                return text[:number].strip()
    return text.strip()


def _followed(question: Question, settings: list[Setting], support: list[Hit] | None = None) -> Turns:
    """Answer with the likeliest of ``settings``; a value that is itself a name is looked up first."""
    hit, value, *_ = settings[0]
    support = [*(support or []), hit]
    lead = f"{_quoted(question.names[:1])} is set to {value} at {hit.path}:{hit.line}"
    if value.endswith(("(", "[", "{")):
        page = yield from _read(f"The value goes on; I read {hit.path}.", hit.path, hit.line)
        return _answer(f"{lead}:", [*support, *_split_head(page.hits(hit.line))[0]])
    symbol, call = _SYMBOL.fullmatch(value), re.fullmatch(r"(?:\w+\.)*(\w+)\(\)", value)
    if symbol and not _LITERAL.match(value):
        name = symbol[1]
        hits, _ = yield from _search(f"{value} is a name; I look for its value.", f"{name} =", f"{name}:")
        if values := _settings([h for h in hits if h != hit], question, _either([name])):
            return _answer(f"{lead}, which is {values[0].value}:", [*support, values[0].hit])
    elif call:
        hits, _ = yield from _search(f"{value} is computed; I look for how.", f"def {call[1]}(")
        if hits:
            return (yield from _computed(question, _ranked(hits, question)[0], support))
    others = [setting.hit for setting in settings[1:] if setting.hit.path != hit.path or len(support) == 1]
    also = "; lower down, other places that set it" if others and len(support) == 1 else ""
    return _answer(f"{lead}{also}:", support + others * (len(support) == 1))


def _computed(question: Question, maker: Hit, support: list[Hit] | None = None) -> Turns:
    """Answer with the function that computes the value, and the constants of its file that it uses."""
    page = yield from _read(f"I read how `{maker.path}` computes it.", maker.path, maker.line)
    block = _block(page, maker.line) or [maker]
    head, body = _split_head(block)
    used = set(re.findall(r"\b_*[A-Z][A-Z0-9_]{2,}\b", "\n".join(hit.text for hit in body)))
    constants: list[Hit] = []
    for number, hit in enumerate(page.hits()):
        named = re.match(r"(\w+)\s*(?::[^=]*)?=(?!=)", hit.text)
        if named and named[1] in used:
            constants += _split_head(page.hits(hit.line))[0][:SHOWN]
    returns = [hit for hit in body if re.match(r"\s*(?:return|yield)\b", hit.text)]
    lead = f"{_quoted(question.names[:1])} is computed at {maker.path}:{maker.line}; what it returns and the constants it uses:"
    return _answer(lead, [*(support or []), *head, *_docstring(body), *returns, *constants], 3 * SHOWN)


# Everything else.

_UNSURE = "I can't tell whether this answers the task;"


def _other(question: Question) -> Turns:
    """Show the lines that hold most of the task's words: of the file it names, else of what a search turns up."""
    words = sorted((word for word in question.words if len(word) > 2), key=lambda word: (-len(word), word))
    if not (question.names or words):
        return "I can't answer this: the task names nothing to look for. I only search for words."
    for path in [path for path in question.paths if "." in path][:1]:
        page = yield from _read(f"I read {path}.", path)
        if not page.lines and (found := (yield from _find(path))):
            page = yield from _read(f"I read {found[0]}.", found[0])
        if close := _closest(page.hits(), question):
            return _answer(f"{_UNSURE} these lines of `{page.path}` share most of its words:", close[:SHOWN])
    pairs = [
        "_".join(pair).lower()
        for pair in zip(question.words, question.words[1:])
        if not {*pair} & {*question.names}
    ]
    first = [*question.names[:2], *pairs[: 3 - len(question.names[:2])]]
    hits, _ = (yield from _search(f"I look for {_quoted(first)}.", *first)) if first else ([], False)
    named = [hit for hit in hits if any(name in hit.text for name in question.names)]
    if question.exact and question.names and question.kind != "other" and not named:
        return _nothing(question.names)
    stems = [pair.upper() for pair in pairs if any(pair in hit.text for hit in hits)][:1]
    stems += [_stem(word) for word in words if word not in question.names][: 3 - len(stems)]
    if stems and len(named) < 3:
        more, _ = yield from _search(f"I look for {_quoted(stems)}.", *stems)
        hits = list(dict.fromkeys(hits + more))
    if not hits:
        return _nothing(question.names or question.words)
    best = _closest(hits, question)
    page = yield from _read(f"I read around the closest line, {best[0].path}:{best[0].line}.", *best[0][:2])
    near = [hit for hit in page.hits(best[0].line - 10) if hit.line < best[0].line + 20]
    shown = list(dict.fromkeys(_closest(near, question)[: SHOWN // 2] + best))
    return _answer(f"{_UNSURE} these lines share most of its words:", shown[:SHOWN])


def _closest(hits: list[Hit], question: Question) -> list[Hit]:
    """``hits`` that share words with the question, those with most and rarest words first."""
    stems = dict.fromkeys(_stem(word).lower() for word in (*question.names, *question.words))
    held = {hit: [stem for stem in stems if stem in hit.text.lower()] for hit in hits}
    count = {stem: sum(stem in found for found in held.values()) for stem in stems}
    score = {hit: sum(1 + 1 / count[stem] for stem in found) for hit, found in held.items()}
    score = {
        hit: value + 3 * any(name in hit.text for name in question.names) for hit, value in score.items()
    }
    rank = {hit: _weight(hit.path, question) / 4 for hit in hits}
    return sorted((hit for hit in hits if held[hit]), key=lambda hit: -score[hit] - rank[hit])


def _stem(word: str) -> str:
    return re.sub(r"(?:ings?|ed|es|s)$", "", word) if len(word) > 5 and word.isalpha() else word


# How lines are ranked and answers worded.


def _weight(path: str, question: Question) -> int:
    """How far the path of a file speaks for it."""
    parts = set(re.split(r"[/._]", path.lower()))
    told = {part for name in (*question.names[:1], *question.context) for part in name.lower().split(".")}
    wanted = [named.removeprefix("./").rstrip("/") for named in question.paths]
    asides = _ASIDE & parts and not _ASIDE & {word.lower() for word in question.words}
    named = any(f"/{path}".endswith(f"/{name}") or f"/{path}".startswith(f"/{name}/") for name in wanted)
    return 8 * named + 2 * len(parts & told) - 4 * bool(asides) - 3 * path.endswith(_PROSE)


def _ranked(hits: list[Hit], question: Question) -> list[Hit]:
    return sorted(
        hits, key=lambda hit: (-_weight(hit.path, question), _indent(hit.text) > 0, hit.path.count("/"))
    )


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def _either(names: Any) -> str:
    return r"(?<!\w)(?:" + "|".join(map(re.escape, names)) + r")(?!\w)"


def _quoted(names: Any) -> str:
    return " or ".join(f"`{name[:MAX_QUERY]}`" for name in names)


def _answer(lead: str, hits: list[Hit], most: int = SHOWN) -> str:
    hits = list(dict.fromkeys(hits))
    rest = [f"(and {len(hits) - most} more)"] * (len(hits) > most)
    return "\n".join(
        [lead, *(f"{hit.path}:{hit.line}: {hit.text.strip()[:200]}" for hit in hits[:most]), *rest]
    )


def _nothing(tried: Any) -> str:
    return f"I can't answer this: I found nothing for {_quoted(list(tried)[:5]) or 'it'}. I only search for words."


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
