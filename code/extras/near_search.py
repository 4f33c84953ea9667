"""near_search.py: refuses a search whose words were nearly all searched for before.

Two queries are compared as sets of words: lower case, stop words removed, and their Jaccard similarity
(words in common, divided by words in either). At 0.5 or more the second search isn't run.

Seam: ``dispatch``, as a guard of the search tool only.
Helps: natural-language search, where a model rephrases one question for ever.
Hurts: literal code search, where ``def load`` after ``load`` is a good next query, and is refused.
"""

import re

STOP_WORDS = frozenset(
    "a an and are as at be by do does for from how in is it of on or that the this to was what when where "
    "which who why with".split()
)


def words_of(query: str) -> frozenset[str]:
    """The words that count in a query; an identifier is one word."""
    return frozenset(re.findall(r"\w+", query.casefold())) - STOP_WORDS


def similarity(a: frozenset[str], b: frozenset[str]) -> float:
    """Jaccard similarity, 0.0 to 1.0; 0.0 when there is nothing to compare."""
    return len(a & b) / len(a | b) if a and b else 0.0


class NearSearch:
    """Refuses a search that is too similar to any earlier query."""

    def __init__(self, tool: str = "search_code", threshold: float = 0.5) -> None:
        self.tool, self.threshold = tool, threshold
        self.earlier: dict[frozenset[str], str] = {}

    def refuse(self, name: str, arguments: dict) -> str | None:
        query = arguments.get("query")
        if name != self.tool or not isinstance(query, str):
            return None
        words = words_of(query)
        for known, earlier in self.earlier.items():
            if similarity(words, known) >= self.threshold:
                return (
                    f"Error: near-duplicate search: {query[:100]!r} is too similar to the earlier query "
                    f"{earlier[:100]!r}; use its result, read a file, or search for something different"
                )
        return None

    def notice(self, name: str, arguments: dict, observation: str) -> None:
        query = arguments.get("query")
        if name == self.tool and isinstance(query, str):
            self.earlier.setdefault(words_of(query), query)
