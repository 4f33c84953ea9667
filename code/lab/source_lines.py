"""source_lines.py: what lines of source code say, judged by their look alone.

Where a definition begins and ends, what its docstring is, which value a line gives a name, and how
far a line speaks for itself. Made for Python; the look of a definition is known for others too.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from lab.question import Question

HEAD = 60  # lines that the head of a definition may take
PARAGRAPH = 16  # lines of a docstring that are looked at
OPENING = 4  # lines of a text that tell what it is about

DEFINED = (
    r"\s*(?:(?:export|public|private|static|async|pub|default|abstract|final)\s+)*"
    r"(?:def|class|function|func|fn|const|let|var|struct|type|interface|enum|trait|record)\s+(?:{0})"
)
ASSIGNED = r"\s*(?:self\.|cls\.)?(?:{0})\s*(?::[^=]*)?=(?!=)|\s+(?:{0})\s*:\s*[A-Za-z][\w\[\]., |]*$"
CONSTANT = re.compile(r"(\w+)\s*(?::[^=]*)?=(?!=)")
SYMBOL = re.compile(r"(?:\w+\.)*([^\W\d]\w*)")
LITERAL = re.compile(r"[-+]?\.?\d|[rbuf]?[\"']|(?:None|True|False|true|false|null)\b|[\[{(]")
_GETTER = re.compile(r"[\w.]*(?:getenv|get|[Ff]ield|Option|Argument)\(")
_SET = (  # name = value, name: type = value, f(name=value); "name": value, get("name", value)
    r"(?:(?<![\w.\"'])|(?<=self\.)|(?<=cls\.))({0})\s*(?::\s*[^=#():]+?)?\s*=(?!=)\s*(\S.*)"
    r"|[\"']({0})[\"']\s*(?::\s*|,(?:.*,)?\s*)(\S.*)"
)
_MARKUP = re.compile(r"\s*(?:$|<|\[?!\[|```|#!|---|===|[{}]$)")
_PROSE = (".md", ".rst", ".txt", ".json", ".jsonl", ".lock", ".html", ".svg", ".csv", ".ipynb")
_ASIDE = frozenset("test tests testing doc docs example examples bench benchmarks vendor third_party".split())


class Hit(NamedTuple):
    """One line of a file."""

    path: str
    line: int
    text: str


class Page(NamedTuple):
    """What `read_file` showed of a file: its lines from number ``first`` on, and whether more follow."""

    path: str = ""
    first: int = 1
    lines: tuple[str, ...] = ()
    more: bool = False

    def hits(self, start: int = 1) -> list[Hit]:
        """The lines from number ``start`` on."""
        numbered = enumerate(self.lines, self.first)
        return [Hit(self.path, number, text) for number, text in numbered if number >= start]


class Setting(NamedTuple):
    """A line that gives a name a value; the higher its weight, the likelier that is a default.

    A setting is ``plain`` when the value is written out, and not the outcome of a calculation.
    """

    hit: Hit
    value: str
    weight: int
    plain: bool


def either(names: Iterable[str]) -> str:
    """A pattern for any of ``names`` as a whole word."""
    return r"(?<!\w)(?:" + "|".join(map(re.escape, names)) + r")(?!\w)"


def part_of(names: Iterable[str]) -> str:
    """A pattern for any word that has one of ``names`` in it."""
    return r"\w*(?:" + "|".join(map(re.escape, names)) + r")\w*"


def indent(text: str) -> int:
    """Characters of white space before the text."""
    return len(text) - len(text.lstrip())


def stem(word: str) -> str:
    """``word`` without a common English ending."""
    return re.sub(r"(?:ings?|ed|es|s)$", "", word) if len(word) > 5 and word.isalpha() else word


# --- the parts of a definition ----------------------------------------------------------------------
def block(page: Page, line: int) -> list[Hit]:
    """The definition that begins at ``line``, as far as the page shows it; ``[]`` when out of view."""
    hits = page.hits(line)
    if not hits or hits[0].line != line:
        return []
    head, body = split_head(hits)
    depth = indent(hits[0].text)
    ends = (number for number, hit in enumerate(body) if hit.text.strip() and indent(hit.text) <= depth)
    return head + body[: next(ends, len(body))]


def split_head(hits: list[Hit]) -> tuple[list[Hit], list[Hit]]:
    """The lines up to the one that closes all brackets that the first lines open, and the rest."""
    depth = 0
    for number, hit in enumerate(hits[:HEAD], 1):
        code = re.sub(r"\"[^\"]*\"|'[^']*'|#.*", "", hit.text)
        depth += sum(map(code.count, "([{")) - sum(map(code.count, ")]}"))
        if depth <= 0:
            return hits[:number], hits[number:]
    return hits[:1], hits[1:]


def docstring(body: list[Hit]) -> list[Hit]:
    """The first paragraph of the docstring that ``body`` begins with; ``[]`` when there is none."""
    opening = re.match(r"\s*[rRuU]?(\"\"\"|'''|\"|')", body[0].text) if body else None
    said: list[Hit] = []
    for hit in body[:PARAGRAPH] if opening else []:
        text = hit.text[opening.end() :] if hit is body[0] else hit.text
        if text.strip():
            said.append(hit)
        elif said:
            break
        if opening[1] in text:
            break
    return said


def comment_above(page: Page, line: int) -> list[Hit]:
    """The comment right above ``line``, decorators passed over."""
    found: list[Hit] = []
    for hit in reversed(page.hits()[: max(0, line - page.first)]):
        if not re.match(r"\s*(?:#|//|@)", hit.text):
            break
        found.insert(0, hit)
    return [hit for hit in found if not hit.text.lstrip().startswith("@")]


def about_itself(page: Page) -> list[Hit]:
    """What a file says that it is: its docstring, or its first lines that aren't licence, badge or markup."""
    hits = page.hits()
    code = [hit for hit in hits if not hit.text.startswith("#")]
    first = next((number for number, hit in enumerate(code) if hit.text.strip()), 0)
    if said := docstring(code[first:]):
        return said
    if hits and hits[0].text.startswith("<!--"):
        hits = hits[next((number for number, hit in enumerate(hits, 1) if "-->" in hit.text), 0) :]
    return [hit for hit in hits if not _MARKUP.match(hit.text)][:OPENING]


# --- values -----------------------------------------------------------------------------------------
def settings(hits: list[Hit], question: Question, words: str) -> list[Setting]:
    """The lines that give a name that matches ``words`` a value, likeliest default first."""
    shape, found = re.compile(_SET.format(words)), []
    for hit in hits:
        start = hit.text.lstrip()
        for match in shape.finditer(hit.text):
            name, value = (match[1], match[2]) if match[1] else (match[3], match[4])
            value = first_value(value)
            symbol = SYMBOL.fullmatch(value)
            if value in ("", "...") or (match[1] and symbol and symbol[1] == name):
                continue  # f(name=name) says nothing
            kind = 4 if LITERAL.match(value) else 3 if _GETTER.match(value) else 2 if symbol else 0
            weight = kind + path_weight(hit.path, question) - (not match[1])
            if start.startswith(("def ", "async def ", name)):
                weight += 2 + 2 * (start == hit.text)
            else:
                weight -= 1
            found.append(Setting(hit, value, weight, kind > 0))
    return sorted(found, key=lambda setting: (-setting.weight, setting.hit.path.count("/")))


def first_value(text: str) -> str:
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


# --- what speaks for a line -------------------------------------------------------------------------
def path_weight(path: str, question: Question) -> int:
    """How far the path of a file speaks for it: named in the task, not a test, not a document."""
    parts = set(re.split(r"[/._]", path.lower()))
    told = {part for name in (*question.names[:1], *question.context) for part in name.lower().split(".")}
    wanted = [f"/{named.removeprefix('./').rstrip('/')}" for named in question.paths]
    named = any(f"/{path}".endswith(name) or f"/{path}".startswith(f"{name}/") for name in wanted)
    aside = _ASIDE & parts and not _ASIDE & {word.lower() for word in question.words}
    return 8 * named + 2 * len(parts & told) - 4 * bool(aside) - 3 * path.endswith(_PROSE)


def ranked(hits: list[Hit], question: Question) -> list[Hit]:
    """``hits``, likeliest file first, then what isn't indented, then what isn't deep in the tree."""

    def key(hit: Hit) -> tuple:
        return -path_weight(hit.path, question), indent(hit.text) > 0, hit.path.count("/")

    return sorted(hits, key=key)


def closest(hits: list[Hit], question: Question) -> list[Hit]:
    """The ``hits`` that share words with the question: a name of it first, then the most and rarest words."""
    stems = dict.fromkeys(stem(word).lower() for word in (*question.names, *question.words))
    held = {hit: [part for part in stems if part in hit.text.lower()] for hit in hits}
    count = {part: sum(part in found for found in held.values()) for part in stems}

    def score(hit: Hit) -> tuple[bool, float]:
        named = any(name in hit.text for name in question.names)
        words = sum(1 + 1 / count[part] for part in held[hit])
        return named, words + path_weight(hit.path, question) / 4

    return sorted((hit for hit in held if held[hit]), key=score, reverse=True)
