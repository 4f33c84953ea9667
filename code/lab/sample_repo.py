"""sample_repo.py: a small repository of fixed text, so that the experiments count the same everywhere.

Its README and `notify.py` name a file that has since been renamed, as happens.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

FILES = {
    "README.md": """\
# parcels

Follows parcels of many carriers from the command line.

    python cli.py track AB123456

Every setting is in settings.py. Each carrier has a file in carriers/.
""",
    "config.py": '''\
"""Settings, one a line."""

API_URL = "https://parcels.example/v2"

TIMEOUT_SECONDS = 12

CACHE_FOLDER = "~/.cache/parcels"

QUIET_HOURS = (22, 7)  # no mail from ten at night to seven
''',
    "client.py": '''\
"""Asks a carrier where a parcel is."""

import time

from config import API_URL, TIMEOUT_SECONDS
from errors import CarrierDown


def fetch(session, code):
    for attempt in range(4):
        reply = session.get(f"{API_URL}/parcel/{code}", timeout=TIMEOUT_SECONDS)
        if reply.status_code < 500:
            return reply.json()
        time.sleep(2**attempt)
    raise CarrierDown(code)
''',
    "prices.py": '''\
"""What a parcel costs."""

ZONES = {"home": 4.9, "near": 9.5, "far": 21.0}


def surcharge(weight):
    if weight <= 5:
        return 0.0
    if weight <= 30:
        return 6.25
    return 18.5


def price(zone, weight):
    return ZONES[zone] + surcharge(weight)
''',
    "store.py": '''\
"""Keeps what was seen, in SQLite."""

import sqlite3


def open_store(path):
    store = sqlite3.connect(path)
    store.execute("create table if not exists movements (code text, place text, seen real)")
    return store


def remember(store, code, place, seen):
    store.execute("insert into movements values (?, ?, ?)", (code, place, seen))
    store.commit()
''',
    "errors.py": '''\
"""What can go wrong."""


class ParcelError(Exception):
    pass


class CarrierDown(ParcelError):
    pass
''',
    "notify.py": '''\
"""Sends a mail when a parcel moves, but not in the quiet hours (see settings.py)."""

from config import QUIET_HOURS


def may_send(hour):
    start, end = QUIET_HOURS
    return end <= hour < start
''',
    "cli.py": '''\
"""The command line."""

import sys

from client import fetch
from errors import CarrierDown, ParcelError


def run(session, code):
    try:
        print(fetch(session, code)["place"])
    except CarrierDown:
        return 3
    except ParcelError as error:
        sys.exit(str(error))
    return 0
''',
}
CARRIER = '''\
"""{name}: one of the carriers."""

CODE = "{code}"

CUT_OFF_HOUR = {hour}


def tracking_url(number):
    return f"https://{code}.example/track?number={{number}}"


def accepts(weight, express=False):
    limit = {limit} if express else {limit} * 2
    return 0 < weight <= limit
'''
PLANTS = ["Alder", "Birch", "Cedar", "Elder", "Fennel", "Hazel", "Juniper", "Laurel"]
TRADES = ["Cargo", "Couriers", "Express", "Freight", "Post"]
LOG_LINES = 5000


@contextmanager
def sample_repo() -> Iterator[Path]:
    """A fresh copy of the sample repository: the folder's path, until the ``with`` block ends."""
    with TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "carriers").mkdir()
        for path, text in sample_files().items():
            (root / path).write_bytes(text.encode())
        yield root


def sample_files() -> dict[str, str]:
    """Text of every file by its path, in the tree's order."""
    names = [f"{plant} {trade}" for plant in PLANTS for trade in TRADES]
    carriers = {
        f"carriers/c{n:02}.py": CARRIER.format(
            name=name, code=f"c{n:02}", hour=9 + n * 5 % 13, limit=10 + n % 4 * 5
        )
        for n, name in enumerate(names)
    }
    return dict(sorted((FILES | carriers).items()))


def add_log(root: Path) -> str:
    """Write a log of some 400,000 characters into the repository; return its name."""
    line = "{:06} parcel AB{:06} scanned at depot {:02}, carrier c{:02}, no fault found\n"
    text = "".join(line.format(n, n * 7919 % 1_000_000, n % 37, n % 40) for n in range(LOG_LINES))
    (root / "events.log").write_bytes(text.encode())
    return "events.log"
