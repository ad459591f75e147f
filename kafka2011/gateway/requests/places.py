"""What other gateways ask, which coordinate groups that read partitions of this one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.broker.security.access import CONSUME
from kafka2011.gateway.groups.peers import Looked, written
from kafka2011.gateway.groups.places import CommitPlace
from kafka2011.gateway.partitions import CURRENT_S
from kafka2011.gateway.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from kafka2011.gateway.requests.context import Body, Caller, Gateway


def places(gateway: Gateway, caller: Caller, body: Body) -> Body:
    """Return the place of each number, or the number of each place, of partitions that this gateway serves."""
    answers = []
    for asked in body["places"]:
        name = asked["topic"], asked["partition"]
        if caller.may(CONSUME, asked["topic"]):
            place = CommitPlace(asked["position"], asked["within"])
            looked = gateway.lookups.find_here(name, asked["number"], place, CURRENT_S)
        else:
            looked = Looked(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        answers.append(written(looked))
    return {"places": answers}
