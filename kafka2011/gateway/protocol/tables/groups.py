"""What members of groups send, and administrators of groups."""

from __future__ import annotations

from kafka2011.gateway.protocol.fields import Api, api_tables

JOIN_GROUP = api_tables(
    Api.JOIN_GROUP,
    "0-9",
    flexible_from=6,
    request="""
        group_id              string
        session_timeout_ms    int32
        rebalance_timeout_ms  int32    1+  = -1
        member_id             string
        group_instance_id     ?string  5+
        protocol_type         string
        protocols             []
            name              string
            metadata          bytes
        reason                ?string  8+
    """,
    response="""
        throttle_time_ms       int32    2+
        error_code             int16
        generation_id          int32    = -1
        protocol_type          ?string  7+
        protocol_name          string   0-6
        protocol_name          ?string  7+
        leader                 string
        skip_assignment        bool     9+
        member_id              string
        members                []
            member_id          string
            group_instance_id  ?string  5+
            metadata           bytes
    """,
)

SYNC_GROUP = api_tables(
    Api.SYNC_GROUP,
    "0-5",
    flexible_from=4,
    request="""
        group_id           string
        generation_id      int32
        member_id          string
        group_instance_id  ?string  3+
        protocol_type      ?string  5+
        protocol_name      ?string  5+
        assignments        []
            member_id      string
            assignment     bytes
    """,
    response="""
        throttle_time_ms  int32    1+
        error_code        int16
        protocol_type     ?string  5+
        protocol_name     ?string  5+
        assignment        bytes
    """,
)

HEARTBEAT = api_tables(
    Api.HEARTBEAT,
    "0-4",
    flexible_from=4,
    request="""
        group_id           string
        generation_id      int32
        member_id          string
        group_instance_id  ?string  3+
    """,
    response="""
        throttle_time_ms  int32  1+
        error_code        int16
    """,
)

LEAVE_GROUP = api_tables(
    Api.LEAVE_GROUP,
    "0-5",
    flexible_from=4,
    request="""
        group_id               string
        member_id              string   0-2
        members                []       3+
            member_id          string
            group_instance_id  ?string
            reason             ?string  5+
    """,
    response="""
        throttle_time_ms       int32    1+
        error_code             int16
        members                []       3+
            member_id          string
            group_instance_id  ?string
            error_code         int16
    """,
)

OFFSET_COMMIT = api_tables(
    Api.OFFSET_COMMIT,
    "2-8",
    flexible_from=8,
    request="""
        group_id                        string
        generation_id_or_member_epoch   int32         = -1
        member_id                       string
        group_instance_id               ?string  7+
        retention_time_ms               int64    2-4  = -1
        topics                          []
            name                        string
            partitions                  []
                partition_index         int32
                committed_offset        int64
                committed_leader_epoch  int32    6+   = -1
                committed_metadata      ?string
    """,
    response="""
        throttle_time_ms         int32  3+
        topics                   []
            name                 string
            partitions           []
                partition_index  int32
                error_code       int16
    """,
)

OFFSET_FETCH = api_tables(
    Api.OFFSET_FETCH,
    "1-8",
    flexible_from=6,
    request="""
        group_id                 string   1-7
        topics                   []       1
            name                 string
            partition_indexes    []int32
        topics                   ?[]      2-7
            name                 string
            partition_indexes    []int32
        groups                   []       8+
            group_id             string
            topics               ?[]
                name             string
                partition_indexes  []int32
        require_stable           bool     7+
    """,
    response="""
        throttle_time_ms                    int32    3+
        topics                              []       1-7
            name                            string
            partitions                      []
                partition_index             int32
                committed_offset            int64
                committed_leader_epoch      int32    5+   = -1
                metadata                    ?string
                error_code                  int16
        error_code                          int16    2-7
        groups                              []       8+
            group_id                        string
            topics                          []
                name                        string
                partitions                  []
                    partition_index         int32
                    committed_offset        int64
                    committed_leader_epoch  int32         = -1
                    metadata                ?string
                    error_code              int16
            error_code                      int16
    """,
)

OFFSET_DELETE = api_tables(
    Api.OFFSET_DELETE,
    "0",
    request="""
        group_id                 string
        topics                   []
            name                 string
            partitions           []
                partition_index  int32
    """,
    response="""
        error_code               int16
        throttle_time_ms         int32
        topics                   []
            name                 string
            partitions           []
                partition_index  int32
                error_code       int16
    """,
)

DESCRIBE_GROUPS = api_tables(
    Api.DESCRIBE_GROUPS,
    "0-5",
    flexible_from=5,
    request="""
        groups                         []string
        include_authorized_operations  bool  3+
    """,
    response="""
        throttle_time_ms           int32    1+
        groups                     []
            error_code             int16
            group_id               string
            group_state            string
            protocol_type          string
            protocol_data          string
            members                []
                member_id          string
                group_instance_id  ?string  4+
                client_id          string
                client_host        string
                member_metadata    bytes
                member_assignment  bytes
            authorized_operations  int32    3+  = -2147483648
    """,
)

LIST_GROUPS = api_tables(
    Api.LIST_GROUPS,
    "0-5",
    flexible_from=3,
    request="""
        states_filter  []string  4+
        types_filter   []string  5+
    """,
    response="""
        throttle_time_ms   int32   1+
        error_code         int16
        groups             []
            group_id       string
            protocol_type  string
            group_state    string  4+
            group_type     string  5+
    """,
)

DELETE_GROUPS = api_tables(
    Api.DELETE_GROUPS,
    "0-2",
    flexible_from=2,
    request="""
        groups_names  []string
    """,
    response="""
        throttle_time_ms  int32
        results           []
            group_id      string
            error_code    int16
    """,
)

TABLES = (
    *(JOIN_GROUP, SYNC_GROUP, HEARTBEAT, LEAVE_GROUP),
    *(OFFSET_COMMIT, OFFSET_FETCH, OFFSET_DELETE),
    *(DESCRIBE_GROUPS, LIST_GROUPS, DELETE_GROUPS),
)
