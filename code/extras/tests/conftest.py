"""The fixtures that keep these tests offline and give them a repository."""

from tests.conftest import offline, repo  # noqa: F401
