"""What the properties are asked of: rows that can be judged, and views derived from them.

A `History` holds lives, spans and rows of many runs at once. `com(c)` at a life is the regular
configuration c and the transitional one that followed it there, both known by c's id, which is the
`regular_id` of their spans. Lives are never joined across incarnations.
"""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LIFE = ("run_id", "node", "incarnation")


class History(NamedTuple):
    """The rows of every run, and what follows from its events.

    `deliveries` and `sends` are those of the nodes themselves (`session` 0), `client_deliveries`
    those to sessions; all are without what comes after a gap and without lives that cannot be
    judged. `events` likewise.
    """

    deliveries: "DataFrame"
    sends: "DataFrame"
    events: "DataFrame"
    client_deliveries: "DataFrame"
    client_sends: "DataFrame"
    # run_id, node, incarnation, ended ("" if the recording stops), is_cut, level, is_blank, n_events
    lives: "DataFrame"
    # run_id, node, incarnation, conf_no, conf_id, conf_seq, conf_rep, is_transitional, prev_conf_id,
    # regular_id, regular_seq, regular_rep, members, start, stop (null: to the end), next_id, is_last
    spans: "DataFrame"
