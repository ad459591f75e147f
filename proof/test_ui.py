"""How soon the console's page shows what has changed in a cluster."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from integration.ui.conftest import GROUP, TOPIC, members
from kafka2011 import LocalCluster
from kafka2011.admin import create_topic
from kafka2011.ui.serving import serve
from tests.support.devtools import CHROMIUM, Browser
from tests.support.waiting import eventually
from zk.connecting import connect
from zk.consumers import ConsumerRegistry

if TYPE_CHECKING:
    from pathlib import Path

    from zk.client import ZkClient

_OWNERS = "[...document.querySelectorAll('a.tile')].map(each => / owner (\\w+):/.exec(each.ariaLabel)?.[1] ?? '')"


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_a_new_owner_is_on_the_page_within_a_second_of_the_session_s_end(tmp_path: Path) -> None:
    """A member is killed; once its znode is gone, the page has a second to show who owns its partitions now."""
    took_s = []
    properties = {"num.partitions": 2, "zk.sessiontimeout.ms": 2000}
    with (
        LocalCluster(2, properties=properties) as cluster,
        connect(cluster.zk_connect) as client,
        serve(client, "127.0.0.1", 0) as address,
        Browser(tmp_path / "profile") as browser,
    ):
        create_topic(client, TOPIC)
        for _ in range(3):
            with members(cluster.zk_connect, 2) as its:
                browser.open("about:blank")
                browser.open(f"{address}#/cluster")
                eventually(lambda: len(set(browser.evaluate(_OWNERS)) - {""}) == 2, what="both owners")
                ended: list[float] = []
                gone = threading.Thread(target=_await_one_less, args=(client, ended), daemon=True)
                gone.start()
                its[0].kill()
                eventually(lambda: len(set(browser.evaluate(_OWNERS))) == 1, what="one owner")
                seen_s = time.monotonic()
                gone.join()
                took_s.append(seen_s - ended[0])
            eventually(lambda: not ConsumerRegistry(client).members(GROUP), what="the end of the other")
    print("seconds from the session's end to the page:", *(f"{each:.3f}" for each in took_s))  # noqa: T201
    assert max(took_s) < 1.0


def _await_one_less(client: ZkClient, ended: list[float]) -> None:
    registry = ConsumerRegistry(client)
    while len(registry.members(GROUP)) > 1:
        time.sleep(0.005)
    ended.append(time.monotonic())
