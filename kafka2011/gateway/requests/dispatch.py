"""From a frame to an answer: which handler each kind of request has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.errors import ProtocolError
from kafka2011.gateway.protocol.errors import ErrorCode, UnknownRequestError
from kafka2011.gateway.protocol.fields import Api
from kafka2011.gateway.protocol.frames import TABLES, read_request, write_response
from kafka2011.gateway.requests import (
    administration,
    configs,
    fetching,
    group_admin,
    group_offsets,
    log_dirs,
    members,
    metadata,
    offsets,
    places,
    producing,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from kafka2011.gateway.requests.context import Body, Caller, Gateway
    from kafka2011.message.header import AnyBytes

    Handler: TypeAlias = Callable[[Gateway, Caller, Body], Body]
    Parts: TypeAlias = list[bytes | bytearray | memoryview]
    Answer: TypeAlias = Callable[[Callable[[], object]], Parts | None]
    """Gives an answer, None if none is wanted. It calls what it is given before it waits for something."""

_SASL = ": there is no SASL here; clients are known by TLS certificates (security.protocol=SSL)"
_HINTS = {17: _SASL, 36: _SASL, 68: ": groups need the classic protocol (group.protocol=classic)"}
"""What clients ask for without saying that it failed."""


def _api_versions(_gateway: Gateway, caller: Caller, body: Body) -> Body:
    caller.software = f"{body.get('client_software_name', '')} {body.get('client_software_version', '')}".strip()
    return {"api_keys": _API_KEYS}


HANDLERS: dict[Api, Handler] = {
    Api.API_VERSIONS: _api_versions,
    Api.METADATA: metadata.metadata,
    Api.DESCRIBE_CLUSTER: metadata.describe_cluster,
    Api.FETCH: fetching.fetch,
    Api.LIST_OFFSETS: offsets.list_offsets,
    Api.OFFSET_FOR_LEADER_EPOCH: offsets.offset_for_leader_epoch,
    Api.FIND_COORDINATOR: members.find_coordinator,
    Api.JOIN_GROUP: members.join_group,
    Api.SYNC_GROUP: members.sync_group,
    Api.HEARTBEAT: members.heartbeat,
    Api.LEAVE_GROUP: members.leave_group,
    Api.OFFSET_COMMIT: group_offsets.offset_commit,
    Api.OFFSET_FETCH: group_offsets.offset_fetch,
    Api.OFFSET_DELETE: group_offsets.offset_delete,
    Api.LIST_GROUPS: group_admin.list_groups,
    Api.DESCRIBE_GROUPS: group_admin.describe_groups,
    Api.DELETE_GROUPS: group_admin.delete_groups,
    Api.INIT_PRODUCER_ID: producing.init_producer_id,
    Api.CREATE_TOPICS: administration.create_topics,
    Api.DELETE_TOPICS: administration.delete_topics,
    Api.CREATE_PARTITIONS: administration.create_partitions,
    Api.DELETE_RECORDS: administration.refuse_deletion,
    Api.DESCRIBE_CONFIGS: configs.describe_configs,
    Api.DESCRIBE_LOG_DIRS: log_dirs.describe_log_dirs,
    Api.ALTER_CONFIGS: configs.refuse_configs,
    Api.INCREMENTAL_ALTER_CONFIGS: configs.refuse_configs,
    Api.PLACES: places.places,
}
"""All but Produce, which begins before the answers to earlier requests are sent."""

OFFERED = {api: TABLES[api].versions for api in sorted({*HANDLERS, Api.PRODUCE})}
"""The versions of each request that clients may send."""

_API_KEYS = [
    {"api_key": api, "min_version": versions.start, "max_version": versions.stop - 1}
    for api, versions in OFFERED.items()
    if api is not Api.PLACES  # which is between gateways
]


_COUNTED = {api: f"requests_{api.name.lower()}" for api in OFFERED}


def is_produce(frame: AnyBytes) -> bool:
    """Say whether a frame holds a Produce request."""
    return bytes(frame[:2]) == b"\0\0"


def begin(gateway: Gateway, caller: Caller, frame: AnyBytes) -> Answer:
    """Begin with a request, and return what gives its answer once those before it are sent; None if none is wanted.

    Raises ProtocolError, after which the connection ends.
    """
    try:
        request = read_request(frame, OFFERED)
    except UnknownRequestError as error:
        if error.key != Api.API_VERSIONS:
            raise ProtocolError(f"{error}{_HINTS.get(error.key, '')}") from error
        body = {"error_code": ErrorCode.UNSUPPORTED_VERSION, "api_keys": _API_KEYS}
        correlation_id = error.correlation_id
        return lambda _: write_response(Api.API_VERSIONS, 0, correlation_id, body)
    caller.client_id, caller.version = request.client_id or "", request.version
    gateway.counts[_COUNTED[request.api]] += 1
    if request.api is Api.PRODUCE:
        finish = producing.begin_produce(gateway, caller, request.body)

        def answer_produce(before_wait: Callable[[], object]) -> Parts | None:
            body = finish(before_wait)
            return None if body is None else write_response(request.api, request.version, request.correlation_id, body)

        return answer_produce
    handler = HANDLERS[request.api]

    def answer(before_wait: Callable[[], object]) -> Parts:
        before_wait()
        caller.version = request.version
        return write_response(
            request.api, request.version, request.correlation_id, handler(gateway, caller, request.body)
        )

    return answer
