import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-goldens",
        action="store_true",
        help="write the stories of tests/scenarios anew; review them as a diff",
    )
