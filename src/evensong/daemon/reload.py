"""New settings for a running daemon, all or nothing: who its peers are, and the cluster's keys.

Everything else is for the next start. A ring's parameters must be equal at all of its processors,
and who a daemon is and where it listens cannot change under its peers.
"""

from collections.abc import Callable
from dataclasses import fields
from typing import Final, final

from evensong.daemon.control import Answer, Request
from evensong.daemon.driver import Driver
from evensong.daemon.keys import read_keys
from evensong.daemon.log import Log
from evensong.daemon.seal import Key
from evensong.daemon.settings import Settings
from evensong.errors import BadRequest, BadSettings, EvensongError

CHANGEABLE: Final = frozenset(["peers", "keys", "advertise"])
KEYS_OF_FIELD: Final = {"parameters": "engine, profile, measured, timeouts or packet"}


@final
class Reload:
    """Reads the settings again and lets what may change take effect."""

    def __init__(
        self,
        settings: Settings,
        keys: tuple[Key, ...],
        reread: Callable[[], Settings],
        driver: Driver,
        log: Log,
    ) -> None:
        self.settings = settings  # in effect
        self._keys = keys
        self._reread: Final = reread
        self._driver: Final = driver
        self._log: Final = log
        self._told: Final[list[Callable[[Settings], None]]] = []

    def tell(self, changed: Callable[[Settings], None]) -> None:
        """Call this with the new settings whenever they have changed."""
        self._told.append(changed)

    def answer(self, _: Request) -> Answer:
        """Reload because somebody asked over the control socket."""
        try:
            return {"changed": self._reload()}
        except EvensongError as error:
            self._log.say(f"keeps its settings: {error}")
            raise BadRequest(f"reload: {error}") from None

    def on_signal(self) -> None:
        """Reload because of SIGHUP; the log has the answer."""
        try:
            self._reload()
        except EvensongError as error:
            self._log.say(f"keeps its settings: {error}")

    def _reload(self) -> list[str]:
        """Take over what has changed, and return it in words; or raise, and nothing has changed."""
        wanted = self._reread()
        _check_fixed(self.settings, wanted)
        self._check_removed(wanted)
        keys = read_keys(wanted.keys)
        changed = _differences(self.settings, wanted, self._keys, keys)
        # From here on nothing can fail.
        self.settings = wanted
        self._keys = keys
        self._driver.set_keys(wanted.cluster, keys)
        self._driver.set_peers(wanted.peers)
        for tell in self._told:
            tell(wanted)
        self._log.say(f"reloaded: {'; '.join(changed) or 'nothing has changed'}")
        return changed

    def _check_removed(self, wanted: Settings) -> None:
        """Refuse to forget a member: the ring would pass its token to nobody."""
        configuration = self._driver.configuration
        members = configuration.members if configuration else ()
        for peer in self.settings.peers:
            if peer in members and peer not in wanted.peers:
                raise BadSettings(f"peers: node {peer} is in the ring now; stop its daemon first")


def _check_fixed(before: Settings, wanted: Settings) -> None:
    for field in fields(Settings):
        name = field.name
        old, new = getattr(before, name), getattr(wanted, name)
        if name not in CHANGEABLE and old != new:
            raise BadSettings(
                f"{KEYS_OF_FIELD.get(name, name)}: cannot change while the daemon runs "
                "(only peers and keys can); restart it"
            )
    if bool(before.keys) != bool(wanted.keys):
        raise BadSettings("insecure: cannot change while the daemon runs; restart it")


def _differences(
    before: Settings, wanted: Settings, old_keys: tuple[Key, ...], keys: tuple[Key, ...]
) -> list[str]:
    old, new = before.peers, wanted.peers
    found = [f"peer {peer} at {new[peer]} added" for peer in sorted(new.keys() - old.keys())]
    found += [f"peer {peer} removed" for peer in sorted(old.keys() - new.keys())]
    found += [
        f"peer {peer} is at {new[peer]} now"
        for peer in sorted(new.keys() & old.keys())
        if new[peer] != old[peer]
    ]
    ids, old_ids = [key.key_id for key in keys], [key.key_id for key in old_keys]
    if keys[:1] != old_keys[:1]:
        found.append(f"seals with key {ids[0]} now")
    if sorted(ids) != sorted(old_ids):
        found.append(f"accepts keys {', '.join(map(str, ids))} now")
    return found
