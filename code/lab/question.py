"""question.py: what a task asks for, read off the shape of its sentences and words.

No language is understood here: a table of sentence shapes tells the kind of question, and the look
of a word (snake_case, CamelCase, quotes, brackets) tells that it is a name.
"""

import re
from dataclasses import dataclass

MAX_TASK = 4000  # characters read; of a longer task, its start and its end

_QUOTED = re.compile(r"`([^`\n]+)`|(?<!\w)[\"“]([^\"”\n]+)[\"”]|(?<!\w)['‘]([^'’\n]+)['’](?!\w)")
_EXTENSION = r"(?:py|pyi|md|rst|txt|toml|cfg|ini|jsonl?|ya?ml|[jt]sx?|rs|go|c|h|cpp|java|rb|sh|html|css|sql)"
_PATH = re.compile(
    rf"(?<![\w/.-])(?:(?:\.{{0,2}}/)?(?:[\w.-]+/)+(?:[\w.-]*\w)?|[\w-]+\.{_EXTENSION}(?![\w.]))"
)
_NAME = re.compile(
    r"⟦(?P<quoted>\d+)⟧|--[A-Za-z][\w-]*|\b[^\W\d]\w+(?:\.[^\W\d]\w+)+|\b\w*[^\W_]_\w+|\b_+[^\W_]\w*"
    r"|\b[a-z]+[A-Z]\w*|\b[A-Z]+[a-z0-9]+[A-Z]\w*|\b[A-Z]{2,}[a-z]\w*|\b[^\W\d]\w*(?=\(\))"
)
_WORD = re.compile(r"[^\W\d_]\w*")
_IDLE = frozenset(  # words that never tell what to look for
    "a i s t about all also an and answer any anything are as at be been by can code codebase could did "
    "do does done each every find for from get give given has have how if in into is it its itself just "
    "let list look many may me much must my no not of on one only or our out please point print project "
    "question repo repository same say says see sets shall should show so some something such take tell "
    "than that the their them then there these they thing this those to under us use used uses using very "
    "was we were what when where whether which who whose why will with within would you your".split()
)
_NOUNS = frozenset(  # words that say what sort of thing a name is
    "argument attribute called class classes command constant dataclass decorator default defined "
    "directory environment exception field file files flag folder function functions keyword method "
    "methods module modules named option package parameter property script setting settings variable".split()
)
_THIS = (
    r"(?:this|the|my|our|your) (?:whole )?(?:repo(?:sitory)?|project|code ?base|package|library|program|code)"
)
_THINGS = (
    r"(?:files?|modules?|places?|functions?|tests?|class(?:es)?|code|lines?|methods?|packages?|scripts?)"
)
_USE = r"(?:uses?|calls?|imports?|references?|mentions?|depends? on|rel(?:y|ies) on|needs?|contains?|raises?)"
_USED = r"(?:used|called|imported|referenced|mentioned|needed|raised|invoked)"
_MADE = r"(?:defined|declared|implemented|located|written|created|set up|set|kept|stored)"
_MAKE = r"(?:defines?|declares?|implements?|holds?|contains? the (?:class|function|method))"
_SHOW = r"(?:find|list|show|name|give|print|tell)(?: me| us)?"
_LISTED = (
    r"\b(?:what|which|how many|list|name|show|print|give)(?P<what>(?: \w+){0,4}? "
    r"(?:files|contents|entries|directories|folders|subdirectories|modules|subpackages))"
)
_X = r"(?P<x>.+?)"
_SHAPES = [  # the first shape that fits decides
    ("about", rf"(?:what|how) (?:does|do|is|are) {_THIS}(?: do| for| about| work)?$"),
    ("about", rf"(?:describe|explain|summari[sz]e)(?: what)? {_THIS}(?: does)?$"),
    (
        "define",
        rf"(?:which|what) {_THINGS} {_MAKE} {_X}$",
    ),
    ("uses", rf"(?:which|what|how many|{_SHOW})\b.*?\b{_THINGS}(?: that| which)? {_USE} {_X}$"),
    ("uses", rf"where(?: is| are|'s| do we| does it)? {_X} (?:is |are )?{_USED}\b"),
    ("uses", rf"(?:who|what) {_USE} {_X}$"),
    ("uses", rf"(?:usages?|uses|users?|callers?|references|importers?) (?:of|to) {_X}$"),
    ("uses", rf"how (?:often|many times) (?:is|are) {_X} {_USED}"),
    ("define", rf"(?:where|in (?:which|what) \w+)(?: is| are|'s)? {_X} (?:is |are )?{_MADE}\b"),
    ("define", rf"where do(?:es)? .+? (?:define|declare|implement|keep) {_X}$"),
    (
        "define",
        rf"{_SHOW} (?:the )?(?:definition|implementation|declaration|source|code)(?: code)? (?:of|for) {_X}$",
    ),
    (
        "members",
        r"(?:what|which|list|name|show|how many)\b.*?\b(?P<what>methods|functions|classes)(?: that)?"
        r"(?: are| does| do| is| has)?(?: there)?(?: defined)?(?: in| of| on)? "
        rf"{_X}(?: has| have| defines?| contains?| provides?)?$",
    ),
    (
        "list",
        rf"{_LISTED}(?: that)?(?: are| is| exist| live)?(?: there)?(?: (?:in|of|under|inside|within) {_X})?$",
    ),
    ("list", rf"{_LISTED} (?:does|do) {_X} (?:have|contain|hold)$"),
    ("list", r"what(?:'s| is| does)?(?: there)? (?:in|inside|under) (?P<x>.+?)$"),
    ("list", rf"what does {_X} (?:directory|folder) (?:contain|hold|have)$"),
    ("default", rf"what (?:does|do) (?P<owner>.+?) (?:use|take|assume)s? (?:for|as) {_X}(?: by default)?$"),
    (
        "default",
        rf"what (?:does|do|is|are) {_X} (?:default(?:ed)? to|(?:set|equal) to|set|by default)\b(?P<tail>.*)$",
    ),
    (
        "default",
        rf"(?:what|which) {_X} (?:does|do|is|are) (?P<owner>.*?)\b(?:defaults? to|by default|default)"
        r"(?P<tail>.*)$",
    ),
    ("default", rf"(?P<max>m)aximum (?:number |amount |count )?(?:of )?{_X}$"),
    ("default", rf"how (?:many|much) {_X} (?P<owner>.*?)\bat (?P<max>m)ost$"),
    ("default", rf"\bdefault (?:value |setting )?(?:of|for) {_X}$"),
    (
        "default",
        rf"(?:what|which)(?:'s| is| are) (?!(?:the|a) default){_X} default(?: value)?\b(?P<tail>.*)$",
    ),
    ("default", rf"\bdefault (?!to\b){_X}$"),
    ("default", rf"\bvalue (?:of|for|has|is) {_X}(?: have| has)?$"),
    ("default", rf"what value (?:does|do) {_X} (?:have|hold)$"),
    ("does", rf"(?:purpose|job|role|meaning|point|docstring|signature|parameters|arguments) (?:of|to) {_X}$"),
    (
        "does",
        r"(?:what|which)(?: \w+)? (?:does|do|can|will|would) "
        rf"{_X} (?:do|return|raise|yield|mean|take|accept|expect|give)s?\b(?P<tail>.*)$",
    ),
    ("does", rf"(?:explain|describe|summari[sz]e)(?: to me)?(?: what| how)? {_X}(?: does| works?)?$"),
    ("does", rf"how (?:does|do) {_X} work$"),
    ("does", rf"what(?:'s| is| are) {_X} (?:good )?for$"),
    ("define", r"(?:where(?:'s| is| are)|where can I find|find) (?P<x>\S+(?: \S+){0,3})$"),
    ("does", r"what(?:'s| is| are) (?P<x>\S+(?: \S+){0,2})$"),
]
_SHAPES = [(kind, re.compile(shape, re.IGNORECASE)) for kind, shape in _SHAPES]


@dataclass(frozen=True)
class Question:
    """A task, as far as its shape tells what it asks for.

    ``kind``: ``about``, ``uses``, ``define``, ``members``, ``list``, ``default``, ``does`` or ``other``.
    ``names``: what to look for; as the asker wrote it when ``exact``, else spellings made of words.
    ``context``: names that narrow the place, such as an owner. ``paths``: files and directories named.
    ``words``: all words that carry meaning, in order. ``what``: the noun that is listed or counted, or
    ``max`` when a ceiling is asked for.
    """

    kind: str
    text: str
    names: tuple[str, ...] = ()
    exact: bool = True
    context: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    what: str = ""


def understand(task: str) -> Question:
    """Read ``task``. Never raises; kind ``other`` when no sentence has a known shape."""
    if len(task) > MAX_TASK:
        task = task[: MAX_TASK // 2] + "\n" + task[-MAX_TASK // 2 :]
    quoted: list[str] = []

    def mask(match: re.Match) -> str:
        literal = next(filter(None, match.groups())).strip()
        if not literal or _PATH.fullmatch(literal):
            return literal
        quoted.append(literal)
        return f"⟦{len(quoted) - 1}⟧"

    text = _QUOTED.sub(mask, re.sub("[⟦⟧]", " ", task))
    sentences = [part.strip() for part in re.split(r"(?<=[?!.;:])\s+|\n+", text) if part.strip()]
    sentences.sort(key=lambda sentence: not sentence.endswith("?"))
    for sentence in sentences:
        plain = re.sub(
            rf",?\s+(?:in|of|from|across|within|inside)(?: all of)? {_THIS}\b", "", sentence.rstrip(" ?!.;:,")
        )
        plain = re.sub(r"^(?:please|can you|could you)\s+", "", plain, flags=re.IGNORECASE)
        for kind, shape in _SHAPES:
            if match := shape.search(plain):
                return _question(kind, match.groupdict(""), text, task, quoted)
    names, paths = _names(text, quoted)
    return Question("other", task, names, True, (), paths, _words(text, quoted))


def spellings(words: list[str]) -> tuple[str, ...]:
    """The names that programmers make of ``words``: snake_case, UPPER_CASE, CamelCase, camelCase."""
    lower = [word.lower() for word in words]
    camel = "".join(word.capitalize() for word in lower)
    return tuple(
        dict.fromkeys(["_".join(lower), "_".join(lower).upper(), camel, lower[0] + camel[len(lower[0]) :]])
    )


def _question(kind: str, found: dict[str, str | None], text: str, task: str, quoted: list[str]) -> Question:
    phrase, around = found.get("x") or "", [found.get("owner") or "", found.get("tail") or ""]
    if possessive := re.match(r"(.+?)['’]s\s+(.+)", phrase):
        around.append(possessive[1])
        phrase = possessive[2]
    phrase, *rest = re.split(r"\s(?:of|in|on|for|from|by|under|inside|within|at|to|when|with)\s", phrase)
    around += rest
    names, _ = _names(phrase, quoted)
    context, _ = _names(" ".join(around), quoted)
    others = [word for word in _plain(phrase) if word.lower() not in _NOUNS]
    if not names and not others:  # a directory or a parameter may be called anything
        others = [
            word for word in _WORD.findall(_PATH.sub(" ", phrase)) if word.lower() not in ("the", "a", "an")
        ][:1]
    exact = bool(names) or len(others) == 1
    if names and kind == "default":  # "the dumps() indent": the last name is asked about
        names, context = names[-1:], names[:-1] + context
    elif not names and others:
        names = (others[0],) if exact else spellings(others)
        others = []
    context += tuple(others) + tuple(word for word in _plain(" ".join(around)) if word.lower() not in _NOUNS)
    return Question(
        kind,
        task,
        names,
        exact,
        tuple(name for name in dict.fromkeys(context) if name not in names),
        _names(text, quoted)[1],
        _words(text, quoted),
        "max" if found.get("max") else (found.get("what") or "").strip().lower(),
    )


def _names(text: str, quoted: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names and the paths in ``text``, in order, each once."""
    paths = tuple(dict.fromkeys(match[0] for match in _PATH.finditer(text)))
    found = _NAME.finditer(_PATH.sub(" ", text))
    names = (quoted[int(match["quoted"])] if match["quoted"] else match[0] for match in found)
    return tuple(dict.fromkeys(name.removesuffix("()") for name in names)), paths


def _plain(text: str) -> list[str]:
    """The words of ``text`` that are neither names nor paths, and that carry meaning."""
    return [word for word in _WORD.findall(_NAME.sub(" ", _PATH.sub(" ", text))) if word.lower() not in _IDLE]


def _words(text: str, quoted: list[str]) -> tuple[str, ...]:
    spelt = re.sub(r"⟦(\d+)⟧", lambda match: quoted[int(match[1])], text)
    return tuple(
        dict.fromkeys(word for word in _WORD.findall(spelt) if len(word) > 1 and word.lower() not in _IDLE)
    )
