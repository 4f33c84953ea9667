"""The cut on the syntax tree: what goes, what stays, and what is refused."""

import pytest

from learn.stubs import cut, extract, is_stub, put

SOURCE = '''\
import os

def before():  # detect is not this one
    return "def detect(): pass"


@decorated
def detect(
    history: list, window: int = 3,
) -> bool:
    """Tell it.

    >>> detect([])
    False
    """
    # the trick
    text = """
no indent here"""
    if text:
        return True
    return False
    # and a last word


class Budget:
    def tick(self, used):

        # count
        @staticmethod
        def inner():
            return 1
        self.steps += 1

    # about over
    def over(self): return None

    async def wait(self):
        """Only a docstring."""


after = 1
'''


def test_the_body_goes_and_signature_docstring_and_neighbours_stay():
    before, function, after = SOURCE.partition(extract(SOURCE, "detect"))
    assert function.startswith("@decorated\n") and function.endswith("# and a last word")
    stub = cut(SOURCE, "detect", 'M1: say "stuck"')
    assert stub == before + function.partition("    # the trick")[0] + (
        '    raise NotImplementedError("M1: say \\"stuck\\"")'
    ) + after
    assert is_stub(stub, "detect") and not is_stub(SOURCE, "detect")


def test_a_method_without_a_docstring_loses_its_comments_and_inner_functions():
    stub = cut(SOURCE, "Budget.tick", "M2: count")
    wanted = 'def tick(self, used):\n\n        raise NotImplementedError("M2: count")\n\n    # about over'
    assert wanted in stub


@pytest.mark.parametrize("name", ["detect", "Budget.tick", "Budget.wait", "before"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_what_was_cut_can_be_put_back_byte_for_byte(name, newline):
    source = SOURCE.replace("\n", newline)
    stub = source if name == "Budget.wait" else cut(source, name, "later")
    assert stub.count("\n") == stub.count(newline)
    assert put(stub, name, SOURCE) == source
    assert put("\ufeff" + stub, name, SOURCE) == "\ufeff" + source


@pytest.mark.parametrize(
    ("source", "name", "says"),
    [
        (SOURCE, "tick", "tick is not defined"),
        (SOURCE, "Budget.detect", "Budget.detect is not defined"),
        (SOURCE + "\ndef before():\n    return 2\n", "before", "before is defined twice"),
        (SOURCE, "Budget.over", "Budget.over has no body"),
        (SOURCE, "Budget.wait", "Budget.wait has no body"),
    ],
)
def test_a_function_that_cannot_be_cut_is_an_error_that_names_it(source, name, says):
    with pytest.raises(LookupError, match=says):
        cut(source, name, "later")
