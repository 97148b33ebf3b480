import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from evensong.client.packing import pack
from evensong.core.groups.limits import BATCH_MAX
from evensong.core.groups.packet import PACKET_SIZE
from evensong.core.ids import PROCESSORS_MAX
from evensong.core.totem.parameters import PROFILES
from evensong.core.totem.parameters import Parameters as RingParameters
from evensong.core.transis.parameters import LAN as LANSIS_LAN
from evensong.daemon.rowsize import width_of
from evensong.daemon.settings import (
    DATAGRAM_MAX,
    FILE_MAX,
    PACKET,
    Address,
    Multicast,
    Settings,
    duration_us,
    effective,
    load,
    parse,
)
from evensong.errors import BadSettings

GOOD: Mapping[str, object] = {
    "cluster": "demo",
    "node": 2,
    "peers": {"1": "10.0.0.1:5405", "2": "10.0.0.2:5405", "3": "[fe80::3]:5405"},
    "state": "state",
    "keys": "cluster.key",
}


def parsed(**changed: object) -> Settings:
    table = {key: value for key, value in {**GOOD, **changed}.items() if value is not None}
    return parse(table, Path("base"), {})


def of_ring(settings: Settings) -> RingParameters:
    assert isinstance(settings.parameters, RingParameters)
    return settings.parameters


def complaint(**changed: object) -> str:
    with pytest.raises(BadSettings) as refused:
        parsed(**changed)
    return str(refused.value)


def test_a_small_file_is_enough() -> None:
    settings = parsed()
    assert settings.node == 2
    assert settings.name == "n2"
    assert settings.listen == Address("10.0.0.2", 5405)
    assert settings.peers == {1: Address("10.0.0.1", 5405), 3: Address("fe80::3", 5405)}
    assert settings.processors() == 3
    assert settings.state == Path("base/state")
    assert settings.keys == (Path("base/cluster.key"),)
    assert of_ring(settings).token_loss == PROFILES["lan"].token_loss
    assert not settings.testing


def test_an_address_prints_as_it_is_written() -> None:
    assert [str(address) for address in parsed().peers.values()] == [
        "10.0.0.1:5405",
        "[fe80::3]:5405",
    ]


def test_timeouts_change_a_profile() -> None:
    parameters = of_ring(parsed(profile="fast", timeouts={"token_loss": "60ms"}))
    assert parameters.token_loss == 60_000
    assert parameters.join == PROFILES["fast"].join


def test_the_environment_overrides_the_file() -> None:
    environment = {
        "EVENSONG_NODE": "3",
        "EVENSONG_LISTEN": "0.0.0.0:9000",
        "EVENSONG_KEYS": '["new.key", "old.key"]',
        "EVENSONG_TIMEOUTS": '{ token_loss = "1s" }',
    }
    settings = parse(GOOD, Path("base"), environment)
    assert settings.node == 3
    assert settings.listen == Address("0.0.0.0", 9000)
    assert settings.keys == (Path("base/new.key"), Path("base/old.key"))
    assert of_ring(settings).token_loss == 1_000_000


def test_a_bad_override_names_its_key() -> None:
    with pytest.raises(
        BadSettings, match=r"node by EVENSONG_NODE: takes .* to 4294967295; got 'two'"
    ):
        parse(GOOD, Path("base"), {"EVENSONG_NODE": "two"})


def test_an_override_that_looks_like_a_number_may_be_a_text() -> None:
    environment = {"EVENSONG_CLUSTER": "123", "EVENSONG_NAME": "true", "EVENSONG_KEYS": "7"}
    settings = parse(GOOD, Path("base"), environment)
    assert (settings.cluster, settings.name) == ("123", "true")
    assert settings.keys == (Path("base/7"),)
    with pytest.raises(BadSettings, match=r"node by EVENSONG_NODE: takes a number .*; got 0"):
        parse(GOOD, Path("base"), {"EVENSONG_NODE": "0"})


def test_a_variable_that_overrides_nothing_is_known_by_name() -> None:
    environment = {"EVENSONG_NOED": "2", "EVENSONG_NAME": "b", "PATH": "c"}
    assert parse(GOOD, Path("base"), environment).idle_variables == ("EVENSONG_NOED",)


def test_what_is_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    deep = "[" * 100_000
    path = tmp_path / "n1.toml"
    path.write_text(f"keys = {deep}")
    with pytest.raises(BadSettings, match=r"n1\.toml: nested too deeply"):
        load(path, {})
    with pytest.raises(BadSettings, match="keys: EVENSONG_KEYS is nested too deeply"):
        parse(GOOD, Path("base"), {"EVENSONG_KEYS": deep})


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"cluster": None}, "cluster: is missing"),
        ({"cluster": "a b"}, "cluster: takes a name of up to 63 letters, digits and . _ -"),
        ({"realtime": 1}, "realtime: takes true or false; got 1"),
        ({"busy": "yes"}, "busy: takes true or false; got 'yes'"),
        ({"busy": True, "engine": "transis"}, "busy: is for a token that rests, which transis"),
        ({"node": 0}, "node: takes a number from 1 to 4294967295; got 0"),
        ({"node": True}, "node: takes a number"),
        ({"node": "one"}, "node: takes a number"),
        ({"node": 9}, "node 9 is not in peers (1, 2, 3); add it there, or give listen"),
        ({"listen": "here"}, 'listen: takes "host:port"'),
        ({"listen": "here:0"}, "listen: takes a port from 1 to 65535; got 'here:0'"),
        ({"peers": {"2": "a:65536"}}, "peers: node 2 takes a port from 1 to 65535"),
        ({"listen": 5405}, "listen: takes a text"),
        ({"listen": "a..b:7000"}, "listen: takes a host whose name has 1 to 63 letters"),
        ({"listen": f"{'a' * 70}:7000"}, "listen: takes a host whose name has 1 to 63 letters"),
        ({"listen": "a\0b:7000"}, "listen: takes a text of printable letters; got 'a\\x00b:7000'"),
        ({"peers": {"2": "a\0b:1"}}, "peers: node 2 takes a text of printable letters"),
        ({"peers": {"2": f"{'é' * 70}:1"}}, "peers: node 2 takes a host whose name has"),
        ({"peers": {"2": "x.:1", "1": "..:1"}}, "peers: node 1 takes a host whose name has"),
        ({"peers": {}}, 'peers: takes a table of node = "host:port"'),
        ({"peers": ["a:1"]}, 'peers: takes a table of node = "host:port"'),
        ({"peers": {"one": "a:1"}}, "peers: a node is a number from 1"),
        ({"peers": {"1": "a:1", "2": "a:1"}}, "peers: two nodes share an address"),
        ({"peers": {"1": "a:1", "01": "b:1"}}, "peers: node 1 is there twice"),
        ({"peers": {"2": "a"}}, 'peers: node 2 takes "host:port"'),
        ({"peers": {str(n): f"a:{n}" for n in range(1, 130)}}, "peers: at most 128 nodes"),
        ({"state": None}, "state: is missing"),
        ({"state": 1}, "state: takes a text"),
        ({"state": "a\0b"}, "state: takes a text of printable letters"),
        ({"trace_dir": "a\0b"}, "trace_dir: takes a text of printable letters"),
        ({"keys": "a\0b"}, "keys: takes a text of printable letters"),
        ({"keys": 7}, "keys: takes a list of texts"),
        ({"keys": [7]}, "keys: takes a text"),
        ({"keys": None}, "keys: name a key file"),
        ({"insecure": True}, "keys: are there beside `insecure = true`; not both, drop one"),
        ({"insecure": "yes"}, "insecure: takes true or false"),
        ({"profile": "slow"}, "profile: takes one of fast, lan, wan, auto; got 'slow'"),
        ({"advertise": "nat"}, 'advertise: takes "host:port"'),
        ({"advertise": "nat:1"}, "advertise: is nat:1, but peers has 10.0.0.2:5405"),
        ({"multicast": "10.0.0.1:5405"}, 'multicast: takes "239.x.y.z:port"'),
        ({"multicast": "group:5405"}, 'multicast: takes "239.x.y.z:port"'),
        ({"multicast": "239.1.2.3"}, 'multicast: takes "239.x.y.z:port"'),
        ({"multicast_ttl": 2}, "multicast_ttl: takes `multicast` beside it"),
        ({"multicast_interface": "a\0"}, "multicast_interface: takes a text of printable letters"),
        ({"multicast_interface": "eth0"}, "multicast_interface: takes `multicast` beside it"),
        ({"multicast": "239.1.2.3:1", "multicast_ttl": 256}, "multicast_ttl: takes a number from"),
        ({"gso": "on"}, "gso: takes one of auto, off; got 'on'"),
        ({"packet": 9000}, "packet: takes a number from 548 to 8952; got 9000"),
        ({"measured": {"rotation": "1ms", "lag": "1ms"}}, 'measured: takes `profile = "auto"`'),
        ({"profile": "auto", "measured": {"lag": "1ms"}}, "measured: takes both rotation and lag"),
        ({"profile": "auto", "measured": {"lags": "1ms"}}, "measured: lags is none of rotation"),
        ({"profile": "auto", "measured": "1ms"}, "measured: takes a table such as"),
        ({"timeouts": "1s"}, "timeouts: takes a table"),
        ({"timeouts": {"token": "1s"}}, "timeouts: token is none of token_retransmit, token_loss"),
        ({"timeouts": {"join": 4}}, 'timeouts: join: a duration is written "300ms"'),
        ({"timeouts": {"token_loss": "100ms"}}, "token_loss >= 4 * token_retransmit"),
        ({"name": ""}, "name: takes a text"),
        ({"name": "a\nb"}, "name: takes a text of printable letters"),
        ({"name": "a\udc80"}, "name: takes a text of printable letters; got 'a\\udc80'"),
        ({"testing": 1}, "testing: takes true or false"),
        ({"trace": "all"}, "trace: takes one of off, views, digests, events; got 'all'"),
        ({"trace_keep": "10GB"}, "trace_keep: a size is written"),
        ({"electorate": []}, "electorate: takes a list of 1 to 128 nodes"),
        ({"electorate": [1, 1]}, "electorate: names a node twice"),
        ({"electorate": [0]}, "electorate: takes a number from 1"),
        ({"message_max": "0KiB"}, "message_max: takes 1KiB to 1GiB"),
        ({"message_max": "2GiB"}, "message_max: takes 1KiB to 1GiB"),
        ({"message_max": 7}, "message_max: a size is written"),
        ({"client_queue": "1"}, "client_queue: a size is written"),
        ({"client_mode": 600}, 'client_mode: takes an octal mode such as "0600"'),
        ({"client_mode": "0999"}, 'client_mode: takes an octal mode such as "0600"'),
        ({"client_group": ""}, "client_group: takes a text"),
        ({"colour": "blue"}, "colour: no such key; there are cluster, node, peers"),
    ],
)
def test_what_is_wrong_is_named_with_what_is_allowed(changed: dict[str, object], told: str) -> None:
    assert told in complaint(**changed)


def test_what_the_others_use_may_differ_from_what_is_listened_on() -> None:
    settings = parsed(listen="0.0.0.0:9000")
    assert settings.listen == Address("0.0.0.0", 9000)
    assert settings.advertise == Address("10.0.0.2", 5405)
    others = {"1": "10.0.0.1:5405"}
    settings = parsed(listen="0.0.0.0:9000", advertise="nat.example.net:7000", peers=others)
    assert settings.advertise == Address("nat.example.net", 7000)


def test_a_multicast_group_has_an_address_an_interface_and_a_reach() -> None:
    assert parsed().multicast is None
    group = Address("239.1.2.3", 5405)
    assert parsed(multicast="239.1.2.3:5405").multicast == Multicast(group, "", 1)
    settings = parsed(multicast="[ff15::3]:5405", multicast_interface="eth0", multicast_ttl=4)
    assert settings.multicast == Multicast(Address("ff15::3", 5405), "eth0", 4)


def test_a_smaller_packet_leaves_less_for_a_frame() -> None:
    usual, small = parsed(), parsed(packet=1_200)
    assert of_ring(usual).datagram_max - of_ring(small).datagram_max == 1_452 - 1_200


def test_as_many_bytes_are_under_way_however_large_a_packet_is() -> None:
    usual, jumbo = of_ring(parsed()), of_ring(parsed(packet=8_952))
    for name in ("window_size", "messages_max"):
        before, now = (getattr(one, name) for one in (usual, jumbo))
        assert now == -(-before * 1_452 // 8_952)
    assert of_ring(parsed(packet=1_000)).window_size == usual.window_size


def test_the_smallest_packet_carries_the_largest_cluster() -> None:
    many = {str(n): f"a:{n}" for n in range(1, PROCESSORS_MAX + 1)}
    assert parsed(packet=548, peers=many).processors() == PROCESSORS_MAX


def test_groups_have_bounds_that_can_work() -> None:
    for settings in (parsed(), parsed(packet=548), parsed(message_max="1GiB")):
        settings.limits().check()
        assert settings.client_queue >= 4 * settings.message_max
    assert parsed(client_queue="1MiB", message_max="64KiB").client_queue == 2**20


@pytest.mark.parametrize("packet", [1_400, PACKET, DATAGRAM_MAX])
def test_a_full_frame_travels_whole(packet: int) -> None:
    room = width_of(packet) * parsed(packet=packet).limits().payload_max
    assert room >= PACKET_SIZE + BATCH_MAX
    assert [len(frame) for frame in pack([bytes(8_192)] * 8, BATCH_MAX)] == [7, 1]


def test_a_majority_is_of_all_daemons_unless_said_otherwise() -> None:
    assert parsed().voters() == (1, 2, 3)
    assert parsed(electorate=[5, 1, 2]).voters() == (1, 2, 5)


def test_a_group_of_clients_may_use_the_socket() -> None:
    assert parsed().client_mode == 0o600
    assert parsed(client_group="choir").client_mode == 0o660
    assert parsed(client_group="choir", client_mode="0666").client_mode == 0o666


def test_auto_is_lan_until_something_was_measured() -> None:
    assert of_ring(parsed(profile="auto")) == of_ring(parsed())
    measured = {"rotation": "2ms", "lag": "18ms"}
    parameters = of_ring(parsed(profile="auto", measured=measured))
    assert parameters.token_loss == 90_000
    assert parameters.join == PROFILES["lan"].join * 90 // 300
    changed = of_ring(parsed(profile="auto", measured=measured, timeouts={"join": "9ms"}))
    assert changed.join == 9_000


def test_an_insecure_cluster_must_be_asked_for() -> None:
    assert parsed(keys=None, insecure=True).keys == ()


@pytest.mark.parametrize(("text", "us"), [("500us", 500), ("300ms", 300_000), ("2s", 2_000_000)])
def test_durations_have_units(text: str, us: int) -> None:
    assert duration_us(text) == us


@pytest.mark.parametrize("text", ["10GiB", "1500MiB", "1TiB"])
def test_a_size_is_shown_as_it_is_written(text: str) -> None:
    shown = effective(parsed(trace_keep=text, realtime=True, busy=True))
    assert shown["trace_keep"] == text
    assert shown["realtime"] is shown["busy"] is True


def test_a_message_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "n1.toml"
    with pytest.raises(BadSettings, match=r"n1\.toml: No such file"):
        load(path, {})
    path.write_text("cluster = ")
    with pytest.raises(BadSettings, match=r"n1\.toml: not TOML"):
        load(path, {})
    path.write_text('cluster = "demo"')
    with pytest.raises(BadSettings, match=r"n1\.toml: node: is missing"):
        load(path, {})


def test_what_is_no_small_file_is_not_read(tmp_path: Path) -> None:
    pipe, large = tmp_path / "pipe.toml", tmp_path / "large.toml"
    os.mkfifo(pipe)
    large.write_bytes(b"#" * (FILE_MAX + 1))
    for path in (pipe, large, Path("/dev/zero")):
        with pytest.raises(BadSettings, match=f"{path}: is no file of at most"):
            load(path)


def test_a_cluster_chooses_its_engine(tmp_path: Path) -> None:
    ring = parse(GOOD, tmp_path, {})
    assert ring.engine == "totem"
    domain = parse({**GOOD, "engine": "transis"}, tmp_path, {})
    assert domain.engine == "transis"
    assert domain.parameters == LANSIS_LAN
    assert effective(domain)["engine"] == "transis"
    assert domain.limits().payload_max < domain.packet
    timed = {**GOOD, "engine": "transis", "timeouts": {"heartbeat": "50ms"}, "allack": True}
    assert parse(timed, tmp_path, {}).parameters == LANSIS_LAN._replace(heartbeat=50_000, allack=1)


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ({"engine": "paxos"}, "engine: takes one of totem, transis; got 'paxos'"),
        ({"engine": "transis", "timeouts": {"token_loss": "1s"}}, "token_loss is none of heart"),
        ({"timeouts": {"heartbeat": "1s"}}, "heartbeat is none of token_retransmit"),
        ({"engine": "transis", "profile": "auto"}, "profile: auto is from rotations of a token"),
        ({"allack": True}, 'allack: takes `engine = "transis"` beside it'),
        ({"engine": "transis", "timeouts": {"agree": "1ms"}}, "timeouts: for .* agree >= 2"),
    ],
)
def test_what_an_engine_does_not_know_is_refused(
    tmp_path: Path, extra: dict[str, object], said: str
) -> None:
    with pytest.raises(BadSettings, match=said):
        parse({**GOOD, **extra}, tmp_path, {})
