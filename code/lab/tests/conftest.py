"""conftest.py: what the lab's tests share: the core's guards, and a repository of random names."""

import random
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.conftest import offline, repo  # noqa: F401  (fixtures)

SYLLABLES = "ba ce di fo gu ha je ki lo mu na pe ri so tu va we xi yo zu".split()


def name(rng: random.Random) -> str:
    """A word that stands in no program: three to four random syllables."""
    return "".join(rng.choices(SYLLABLES, k=rng.randint(3, 4)))


@pytest.fixture(params=[1, 2, 3])
def strange(request: pytest.FixtureRequest, tmp_path: Path) -> SimpleNamespace:
    """A small Python package in which each name and value is random; its fields say what is what."""
    rng = random.Random(request.param)
    words = [name(rng) for _ in range(40)]
    assert len(set(words)) == 40, "names must differ for the tests to mean something"
    it = iter(words)
    names = SimpleNamespace(
        package=next(it),
        module=next(it),
        other=next(it),
        folder=next(it),
        function=f"{next(it)}_{next(it)}",
        near=f"{next(it)}_{next(it)}",
        cls=next(it).capitalize() + next(it).capitalize(),
        method=next(it),
        constant=f"{next(it)}_{next(it)}".upper(),
        parameter=f"{next(it)}_{next(it)}",
        field=f"{next(it)}_{next(it)}",
        thing=next(it),
        topic=next(it),
        variable=f"{next(it)}_{next(it)}".upper(),
        purpose=" ".join(next(it) for _ in range(4)),
        trouble=f"{next(it)} {next(it)}",
        absent=f"{next(it)}_{next(it)}",
        number=rng.randint(100, 999),
        size=rng.randint(1000, 9999),
        model=next(it),
        limit=rng.randint(10_000, 99_999),
        port=str(rng.randint(2000, 9000)),
    )
    n = names
    filler = "".join(f"# {name(rng) * 8}\nx{number} = {number}\n" for number in range(300))
    files = {
        "README.md": f"<!-- licence\nby nobody -->\n# {n.package}\n\nA tool for {n.purpose}.\n",
        f"{n.package}/__init__.py": f'"""The package {n.package}."""\n',
        f"{n.package}/{n.module}.py": (
            f'"""Module for {n.trouble}."""\n\nimport os\n\n{n.constant} = {n.number}\n'
            f'DEFAULT_{n.thing.upper()} = "{n.model}"\nMAX_{n.topic.upper()} = {n.limit}\n'
            f'{n.variable} = os.environ.get("{n.variable}", "{n.port}")\n\n\n'
            f"def {n.near}_more(a):\n    return a\n\n\n"
            f"def {n.function}(\n    source: str,\n    {n.parameter}: int = {n.size},\n) -> str:\n"
            f'    """Do {n.purpose}.\n\n    More of it.\n    """\n'
            f"    if not source:\n        raise ValueError('{n.trouble}')\n    return source\n"
        ),
        f"{n.package}/{n.other}.py": (
            f"{filler}\nfrom {n.package}.{n.module} import {n.function}\n\n\n"
            f"class {n.cls}:\n    {n.field}: float = {n.number}.5\n\n"
            f"    def __init__(self, depth={n.constant}):\n        self.depth = depth\n\n"
            f"    def {n.method}(self):\n        # {n.purpose}\n        return {n.function}('a')\n"
        ),
        f"{n.folder}/one.py": "",
        f"{n.folder}/two.md": "",
        f"{n.folder}/sub/three.py": "",
        f"tests/test_{n.module}.py": f"def test_it():\n    assert {n.function}('a', {n.parameter}=1)\n",
    }
    names.root = tmp_path / "strange"
    for path, text in files.items():
        (names.root / path).parent.mkdir(parents=True, exist_ok=True)
        (names.root / path).write_text(text, encoding="utf-8", newline="\n")
    names.home, names.deep = f"{n.package}/{n.module}.py", f"{n.package}/{n.other}.py"
    return names
