from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.devtools import Browser, find_browser


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = find_browser()
    if program is None:
        pytest.fail("no Chromium is installed: on Debian, apt install chromium")
    with Browser(program, tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="session")
def pictures(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pictures go: they are there to be looked at."""
    given = request.config.getoption("--pictures")
    directory = Path(given) if given else tmp_path_factory.mktemp("pictures")
    directory.mkdir(parents=True, exist_ok=True)
    return directory
