"""What nodes delivered and sent, and their clients, as columns of numbers."""

from typing import Final

import numpy as np

from bench.synthetic.plan import (
    BATCH,
    FRAME_EVERY,
    PLANT_NODE,
    UNIT_US,
    Ring,
    Stay,
    frames,
)

LAG: Final = 3 * BATCH  # what a sender has not delivered yet when it sends
AGREED, SAFE = 3, 4
GROUPS: Final = 50
SESSION: Final = 1
DELAY_US: Final = 1000
Columns = dict[str, np.ndarray]


def units(ring: Ring, index: np.ndarray) -> Columns:
    """Return what is the same of a unit wherever it is seen, by its index in the ring."""
    visit = index // BATCH
    members = np.array(ring.members, dtype=np.uint32)
    before = np.array([ring.sent_before[member] for member in ring.members], dtype=np.int64)
    turn = visit % len(members)
    mixed = (index.astype(np.uint64) + np.uint64(ring.seq << 40)) * np.uint64(0x9E3779B97F4A7C15)
    return {
        "count": (1 + index % 3).astype(np.uint16),
        "seq": (index + 1).astype(np.uint64),
        "sender": members[turn],
        "origin_no": (before[turn] + visit // len(members) * BATCH + index % BATCH + 1).astype(
            np.uint64
        ),
        "service": np.where(index % 10 < 3, SAFE, AGREED).astype(np.uint8),
        "digest": mixed >> np.uint64(32),
        "size": (100 + index % 1300).astype(np.uint32),
    }


def frame_units(ring: Ring, index: np.ndarray) -> Columns:
    """Return what is the same of a frame wherever it is seen."""
    columns = units(ring, index)
    rows = len(index)
    # Each visit has as many units, and so as many frames: a frame's number follows from its unit's.
    number = (columns["origin_no"] + np.uint64(FRAME_EVERY - 1)) // np.uint64(FRAME_EVERY)
    return {
        **columns,
        "session": np.full(rows, SESSION, dtype=np.uint32),
        "count": np.ones(rows, dtype=np.uint16),
        "origin_no": number,
        "digest": columns["digest"] ^ np.uint64(0x5EED),
        "dest_no": (index // FRAME_EVERY % GROUPS).astype(np.uint32),
    }


def frames_told(node: int, stay: Stay) -> Columns:
    """Return what a node's client was told in a ring."""
    ring = stay.ring
    index = np.array(frames(node, ring))
    columns = frame_units(ring, index)
    is_late = index >= ring.n_regular
    return {
        **columns,
        "pos": (stay.told + np.arange(len(index))).astype(np.uint64),
        "conf_no": (stay.conf_no + is_late).astype(np.uint32),
        "sender_session": np.full(len(index), SESSION, dtype=np.uint32),
        "reduced": is_late,  # of a client's row: that the configuration is a transitional one
        "after_gap": np.zeros(len(index), dtype=bool),
        "t_us": (ring.t_us + (index + 1) * UNIT_US + DELAY_US + node).astype(np.int64),
    }


def frames_sent(node: int, stay: Stay) -> Columns:
    """Return what a node's client sent in a ring."""
    ring = stay.ring
    each = np.arange(0, BATCH, FRAME_EVERY)
    visit = visits(node, ring)
    columns = frame_units(ring, (visit[:, None] * BATCH + each).ravel())
    del columns["sender"]
    known = -(-np.maximum(visit * BATCH - LAG, 0) // FRAME_EVERY)
    return {
        **columns,
        "conf_no": np.full(len(visit) * len(each), stay.conf_no, dtype=np.uint32),
        "pos": np.repeat(stay.told + known, len(each)).astype(np.uint64),
        "t_us": np.repeat(ring.t_us + visit * BATCH * UNIT_US, len(each)).astype(np.int64),
    }


def deliveries(node: int, stay: Stay) -> Columns:
    """Return what a node delivered in a ring."""
    ring = stay.ring
    index = np.arange(ring.n_sent if node in ring.heirs else ring.n_regular)
    is_planted = node == PLANT_NODE
    if is_planted and ring.plant == "missing":
        index = np.delete(index, ring.planted_at)
    t_us = ring.t_us + (index + 1) * UNIT_US + DELAY_US + node
    n_regular = ring.n_regular - (is_planted and ring.plant == "missing")
    n_regular += is_planted and ring.plant == "early"
    is_late = np.arange(len(index)) >= n_regular
    if is_planted and ring.plant == "swap":
        at = ring.planted_at
        index[[at - 1, at]] = index[[at, at - 1]]
    columns = units(ring, index)
    if is_planted and ring.plant == "content":
        columns["digest"][ring.planted_at] ^= np.uint64(1)
    stable = np.minimum((index // BATCH + 1) * BATCH, ring.n_regular)
    return {
        **columns,
        "pos": (stay.start + np.arange(len(index))).astype(np.uint64),
        "conf_no": (stay.conf_no + is_late).astype(np.uint32),
        "reduced": is_late & (columns["service"] == SAFE),
        "stable_seq": stable.astype(np.uint64),
        "after_gap": np.zeros(len(index), dtype=bool),
        "t_us": t_us.astype(np.int64),
    }


def visits(node: int, ring: Ring) -> np.ndarray:
    """Return which visits of the token, of all in a ring, were a member's own."""
    found = np.arange(ring.members.index(node), ring.n_regular // BATCH, len(ring.members))
    if node == ring.members[0] and ring.n_left:
        return np.append(found, ring.n_regular // BATCH)
    return found


def past(node: int, stay: Stay, visit: np.ndarray) -> np.ndarray:
    """Return how much a node had delivered at visits of the token."""
    known = np.maximum(visit * BATCH - LAG, 0)
    if stay.ring.plant == "missing" and node == PLANT_NODE:
        known = known - (known > stay.ring.planted_at)
    return np.asarray(stay.start + known)


def sends(node: int, stay: Stay) -> Columns:
    """Return what a node sent in a ring."""
    ring = stay.ring
    visit = visits(node, ring)
    index = (visit[:, None] * BATCH + np.arange(BATCH)).ravel()
    columns = units(ring, index)
    del columns["sender"]
    return {
        **columns,
        "conf_no": np.full(len(index), stay.conf_no, dtype=np.uint32),
        "pos": np.repeat(past(node, stay, visit), BATCH).astype(np.uint64),
        "t_us": np.repeat(ring.t_us + visit * BATCH * UNIT_US, BATCH).astype(np.int64),
    }
