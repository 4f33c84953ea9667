"""stubs.py: cut a function out of a source text, or put one in, on the syntax tree.

Everything outside the function stays byte for byte. Functions are named as in a traceback:
``detect_stuck``, ``BudgetTracker.tick``. A name that isn't there, or is there twice, is a LookupError;
a text that isn't Python is a SyntaxError.
"""

import ast
import re


def extract(source: str, name: str) -> str:
    """The text of one function, from its first decorator to its last line."""
    first, last = _extent(source, find(source, name))
    return "\n".join(source.split("\n")[first - 1 : last])


def cut(source: str, name: str, message: str) -> str:
    """``source`` with the body of one function replaced by ``raise NotImplementedError(message)``.

    Signature and docstring stay, comments of the body go with it. Raises LookupError also when the
    function has no body of its own lines to take out.
    """
    node = find(source, name)
    lines = source.split("\n")
    header = ast.get_docstring(node, clean=False) is not None
    body = node.body[header:]
    if not body or _first_line(body[0]) <= max(node.lineno, node.body[0].end_lineno if header else 0):
        raise LookupError(f"{name} has no body on lines of its own")
    start = node.body[0].end_lineno + 1 if header else _first_line(body[0])
    while not header and lines[start - 2].lstrip().startswith("#"):
        start -= 1
    end = "\r" if lines[start - 1].endswith("\r") else ""
    text = message.replace("\\", "\\\\").replace('"', '\\"')
    stub = f'{" " * body[0].col_offset}raise NotImplementedError("{text}")'
    return "\n".join([*lines[: start - 1], stub + end, *lines[_extent(source, node)[1] :]])


def put(source: str, name: str, donor: str) -> str:
    """``source`` with one function replaced by the same function of ``donor``."""
    first, last = _extent(source, find(source, name))
    lines = source.split("\n")
    text = extract(donor, name).replace("\r", "")
    if "\r\n" in source:
        text = text.replace("\n", "\r\n") + "\r"
    return "\n".join([*lines[: first - 1], text, *lines[last:]])


def is_stub(source: str, name: str) -> bool:
    """Whether the function does nothing but raise NotImplementedError."""
    node = find(source, name)
    body = node.body[ast.get_docstring(node) is not None :]
    return len(body) == 1 and bool(re.match(r"raise NotImplementedError\b", ast.unparse(body[0])))


def find(source: str, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef:
    """The syntax tree of one function; its ``lineno`` is that of ``def``."""
    *owners, function = name.split(".")
    nodes = ast.parse(source.encode()).body  # bytes: the parser takes a byte-order mark only there
    for owner in owners:
        classes = [node for node in nodes if isinstance(node, ast.ClassDef) and node.name == owner]
        nodes = [child for node in classes for child in node.body]
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = [node for node in nodes if isinstance(node, kinds) and node.name == function]
    if len(found) != 1:
        raise LookupError(f"{name} is defined twice" if found else f"{name} is not defined")
    return found[0]


def _first_line(node: ast.stmt) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])


def _extent(source: str, node: ast.stmt) -> tuple[int, int]:
    last = node.end_lineno
    for number, line in enumerate(source.split("\n")[last:], last + 1):  # comments that end the body
        text = line.lstrip()
        if text.startswith("#") and len(line) - len(text) > node.col_offset:
            last = number
        elif text:
            break
    return _first_line(node), last
