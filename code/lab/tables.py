"""tables.py: tables of rows, as Markdown that reads well in a terminal too, and their place in a document.

In a document a table stands between ``<!-- table:NAME -->`` and ``<!-- /table:NAME -->``.
"""

import os
from pathlib import Path
from tempfile import NamedTemporaryFile


def markdown(rows: list[dict]) -> str:
    """``rows`` as an aligned Markdown table. Each row has the same keys, which head the columns.

    Whole numbers get thousands separators and stand right, like other cells that start with a digit.

    >>> print(markdown([{"run": "a", "tokens": 12345}, {"run": "b", "tokens": 7}]))
    | run | tokens |
    |-----|-------:|
    | a   | 12,345 |
    | b   |      7 |
    """
    lines = [list(rows[0])] + [[_text(value) for value in row.values()] for row in rows]
    columns = list(zip(*lines))
    widths = [max(3, *map(len, column)) for column in columns]
    sides = [">" if all(cell[:1].isdigit() for cell in column[1:]) else "<" for column in columns]
    rule = "|".join("-" * (width + 1) + (":" if side == ">" else "-") for width, side in zip(widths, sides))
    shown = [
        " | ".join(f"{cell:{side}{width}}" for cell, side, width in zip(line, sides, widths))
        for line in lines
    ]
    return "\n".join([f"| {shown[0]} |", f"|{rule}|", *(f"| {line} |" for line in shown[1:])])


def ratio(part: float, whole: float) -> str:
    """``part / whole`` with as many digits as say something; ``-`` when there is nothing to divide by."""
    if not whole:
        return "-"
    value = part / whole
    return f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value).replace("|", "\\|").replace("\n", " ")


def put_tables(text: str, tables: dict[str, str]) -> str:
    """``text`` with each table of ``tables`` (by name) between its markers, and nothing else changed.

    Raises ValueError when a pair of markers is missing, doubled or in the wrong order.
    """
    for name, table in tables.items():
        start, end = f"<!-- table:{name} -->", f"<!-- /table:{name} -->"
        if text.count(start) != 1 or text.count(end) != 1 or text.index(start) > text.index(end):
            raise ValueError(f"it needs one line {start} and, below it, one line {end}")
        newline = "\r\n" if "\r\n" in text else "\n"
        before, after = text.split(start)[0], text.split(end)[1]
        text = before + newline.join([start, *table.splitlines(), end]) + after
    return text


def write_tables(path: Path, tables: dict[str, str]) -> None:
    """Put ``tables`` into the document at ``path``, all or none: a reader never sees half a file.

    Raises ValueError, one sentence that names the file, when that can't be done.
    """
    try:
        text = path.read_bytes().decode("utf-8")
        new = put_tables(text, tables)
        if new != text:
            replace_file(path, new)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"{path.name} is left as it was: {reason}") from error


def replace_file(path: Path, text: str) -> None:
    """Write ``text`` beside ``path`` and move it there in one go. Raises OSError."""
    target = path.resolve()  # through a link, not over it
    with NamedTemporaryFile("wb", dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
        file.write(text.encode("utf-8"))
    try:
        os.chmod(file.name, target.stat().st_mode)
        os.replace(file.name, target)
    except OSError:
        os.unlink(file.name)
        raise
