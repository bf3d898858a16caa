from tests.conftest import CONF


def options(group: str) -> list[str]:
    """The names that a group offers."""
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))
