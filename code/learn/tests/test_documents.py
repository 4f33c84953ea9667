"""The rules by which a finished document becomes a template, and by which answers are recognised."""

import pytest

from learn.documents import PLACEHOLDER, make_template, read_sections

FINISHED = """\
# Understanding

This is a worked example.

## Q1 What is stuck?

> In two sentences.

Because it repeats.

```python
# not a heading
## nor this
```

- a list

## Experiment 2: No budget

**Hypothesis.** It runs on
and on.

More about it.

**Result.**

<!-- table:budget -->
| variant | steps | tokens |
|---|---|---|
| with | 3 | 4 |
| a \\| b | 30 | 400 |
<!-- /table:budget -->

**Why it failed:**

- one
- two
"""

TEMPLATE = """\
# Understanding

Hello.

## Q1 What is stuck?

> In two sentences.

_Your answer:_

## Experiment 2: No budget

**Hypothesis.** _Your answer:_

**Result.**

<!-- table:budget -->
| variant | steps | tokens |
|---|---|---|
| with |   |   |
| a \\| b |    |     |
<!-- /table:budget -->

**Why it failed:** _Your answer:_
"""


def test_the_questions_stay_and_the_answers_go():
    assert make_template(FINISHED, "Hello.\n") == TEMPLATE


def test_a_finished_document_is_filled_and_its_template_asks_the_same_and_is_not():
    finished, template = read_sections(FINISHED), read_sections(TEMPLATE)
    assert [(s.title, len(s.parts)) for s in finished] == [(s.title, len(s.parts)) for s in template]
    assert [s.filled for s in finished] == [True, True]
    assert [s.filled for s in template] == [False, False]


@pytest.mark.parametrize(
    ("answer", "filled"),
    [
        (PLACEHOLDER, False),
        (f"{PLACEHOLDER} TODO", False),
        ("...", False),
        ("<!-- an answer that nobody sees -->", None),
        ("", None),
        (f"{PLACEHOLDER} It repeats.", True),
        (f"{PLACEHOLDER}\n\nIt repeats.", True),
        ("It repeats.", True),
        ("### My view\n\nIt repeats.", True),
        ("**Note:** it repeats.", True),
        ("```\nA, A, A\n```", True),
    ],
)
def test_an_answer_is_what_says_something_beside_the_placeholder(answer, filled):
    sections = read_sections(f"# T\n\n## Q?\n\n> Think.\n\n{answer}\n")
    assert [section.filled for section in sections] == ([] if filled is None else [filled])


def test_one_filled_cell_fills_a_table_and_a_part_without_an_answer_keeps_the_section_open():
    one_cell = TEMPLATE.replace("| with |   |", "| with | 3 |")
    assert one_cell != TEMPLATE and not read_sections(one_cell)[1].filled, "two labels still have no answer"
    answered = TEMPLATE.replace(PLACEHOLDER, "Because.")
    assert not read_sections(answered)[1].filled, "the table is still empty"
    assert read_sections(one_cell.replace(PLACEHOLDER, "Because."))[1].filled
