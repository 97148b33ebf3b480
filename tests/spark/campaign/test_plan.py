import json
from itertools import pairwise

import pytest

from evensong import __version__
from evensong.errors import BadCampaign
from evensong.spark.campaign.plan import SEEDS_PER_PART, Campaign, sources_digest

CAMPAIGN = Campaign(range(10, 400), nodes=3, messages=30, traces=7)


def test_parts_cover_the_seeds_once_and_in_order() -> None:
    parts = list(CAMPAIGN.parts())
    assert [seed for part in parts for seed in part] == list(CAMPAIGN.seeds)
    assert all(len(part) <= SEEDS_PER_PART for part in parts)


def test_the_last_part_is_cut_finer_so_that_cores_end_together() -> None:
    *others, last = CAMPAIGN.parts()
    assert CAMPAIGN.seeds_per_task(last) < min(map(CAMPAIGN.seeds_per_task, others))


@pytest.mark.parametrize("traces", [0, 1, 7, 389, 390])
def test_as_many_traces_are_kept_as_were_asked_for_and_spread(traces: int) -> None:
    campaign = Campaign(range(10, 400), traces=traces)
    kept = [seed for seed in campaign.seeds if campaign.keeps_trace(seed)]
    assert len(kept) == traces
    gaps = {after - before for before, after in pairwise(kept)}
    assert not gaps or max(gaps) - min(gaps) <= 1


def test_a_task_repeats_by_its_command() -> None:
    campaign = Campaign(range(2), nodes=3, clients=True)
    assert campaign.task(1).command() == "evensong sim --seed 1 --nodes 3 --clients"
    other = Campaign(range(2), engine="transis")
    assert other.task(1).command() == "evensong sim --seed 1 --engine transis"


def test_the_same_campaign_is_gone_on_with() -> None:
    written = Campaign(range(10, 400), nodes=3, messages=30, traces=7).to_json()
    CAMPAIGN.check_same(written, "here")
    assert json.loads(written)["version"] == __version__


@pytest.mark.parametrize(
    ("other", "complaint"),
    [
        (Campaign(range(10, 500), 3, 30, traces=7), "its seeds is 10:500, not 10:400"),
        (Campaign(range(10, 400), None, 30, traces=7), "its nodes is not set, not 3"),
        (Campaign(range(10, 400), 3, 31, traces=7), "its messages is 31, not 30"),
        (Campaign(range(10, 400), 3, 30, clients=True, traces=7), "its clients is True, not False"),
        (Campaign(range(10, 400), 3, 30), "its traces is 0, not 7"),
        (Campaign(range(10, 400), 3, 30, traces=7, engine="transis"), "its engine is transis, not"),
    ],
)
def test_another_campaign_is_refused_by_what_differs(other: Campaign, complaint: str) -> None:
    with pytest.raises(BadCampaign, match=r"^here: another campaign is there") as refused:
        CAMPAIGN.check_same(other.to_json(), "here")
    assert complaint in str(refused.value)
    assert other.name() != CAMPAIGN.name()


def test_a_campaign_of_other_sources_is_refused() -> None:
    written = json.loads(CAMPAIGN.to_json())
    written["sources"] = "0" * 32
    with pytest.raises(BadCampaign, match=f"its sources is {'0' * 32}, not {sources_digest()}"):
        CAMPAIGN.check_same(json.dumps(written), "here")


@pytest.mark.parametrize("written", ["", "[", "[1]", "7"])
def test_what_is_no_description_is_named(written: str) -> None:
    with pytest.raises(BadCampaign, match=r"^here: is not the description of a campaign"):
        CAMPAIGN.check_same(written, "here")
