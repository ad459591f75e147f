"""What administrators send: topics, partitions, settings, the cluster; and the epochs of leaders."""

from __future__ import annotations

from kafka2011.gateway.protocol.fields import Api, api_tables

CREATE_TOPICS = api_tables(
    Api.CREATE_TOPICS,
    "2-7",
    flexible_from=5,
    request="""
        topics                   []
            name                 string
            num_partitions       int32
            replication_factor   int16
            assignments          []
                partition_index  int32
                broker_ids       []int32
            configs              []
                name             string
                value            ?string
        timeout_ms               int32    = 60000
        validate_only            bool
    """,
    response="""
        throttle_time_ms        int32
        topics                  []
            name                string
            topic_id            uuid     7+
            error_code          int16
            error_message       ?string
            num_partitions      int32    5+  = -1
            replication_factor  int16    5+  = -1
            configs             ?[]      5+
                name            string
                value           ?string
                read_only       bool
                config_source   int8         = -1
                is_sensitive    bool
    """,
)

DELETE_TOPICS = api_tables(
    Api.DELETE_TOPICS,
    "1-6",
    flexible_from=4,
    request="""
        topics        []        6+
            name      ?string
            topic_id  uuid
        topic_names   []string  1-5
        timeout_ms    int32
    """,
    response="""
        throttle_time_ms   int32
        responses          []
            name           string   1-5
            name           ?string  6+
            topic_id       uuid     6+
            error_code     int16
            error_message  ?string  5+
    """,
)

CREATE_PARTITIONS = api_tables(
    Api.CREATE_PARTITIONS,
    "0-3",
    flexible_from=2,
    request="""
        topics              []
            name            string
            count           int32
            assignments     ?[]
                broker_ids  []int32
        timeout_ms          int32
        validate_only       bool
    """,
    response="""
        throttle_time_ms   int32
        results            []
            name           string
            error_code     int16
            error_message  ?string
    """,
)

DELETE_RECORDS = api_tables(
    Api.DELETE_RECORDS,
    "0-2",
    flexible_from=2,
    request="""
        topics                   []
            name                 string
            partitions           []
                partition_index  int32
                offset           int64
        timeout_ms               int32
    """,
    response="""
        throttle_time_ms         int32
        topics                   []
            name                 string
            partitions           []
                partition_index  int32
                low_watermark    int64
                error_code       int16
    """,
)

DESCRIBE_CONFIGS = api_tables(
    Api.DESCRIBE_CONFIGS,
    "1-4",
    flexible_from=4,
    request="""
        resources               []
            resource_type       int8
            resource_name       string
            configuration_keys  ?[]string
        include_synonyms        bool
        include_documentation   bool  3+
    """,
    response="""
        throttle_time_ms       int32
        results                []
            error_code         int16
            error_message      ?string
            resource_type      int8
            resource_name      string
            configs            []
                name           string
                value          ?string
                read_only      bool
                config_source  int8         = -1
                is_sensitive   bool
                synonyms       []
                    name       string
                    value      ?string
                    source     int8
                config_type    int8     3+
                documentation  ?string  3+
    """,
)

_ALTERED = """
    throttle_time_ms   int32
    responses          []
        error_code     int16
        error_message  ?string
        resource_type  int8
        resource_name  string
"""

ALTER_CONFIGS = api_tables(
    Api.ALTER_CONFIGS,
    "0-2",
    flexible_from=2,
    request="""
        resources          []
            resource_type  int8
            resource_name  string
            configs        []
                name       string
                value      ?string
        validate_only      bool
    """,
    response=_ALTERED,
)

INCREMENTAL_ALTER_CONFIGS = api_tables(
    Api.INCREMENTAL_ALTER_CONFIGS,
    "0-1",
    flexible_from=1,
    request="""
        resources                 []
            resource_type         int8
            resource_name         string
            configs               []
                name              string
                config_operation  int8
                value             ?string
        validate_only             bool
    """,
    response=_ALTERED,
)

DESCRIBE_CLUSTER = api_tables(
    Api.DESCRIBE_CLUSTER,
    "0-1",
    flexible_from=0,
    request="""
        include_cluster_authorized_operations  bool
        endpoint_type                          int8  1+  = 1
    """,
    response="""
        throttle_time_ms               int32
        error_code                     int16
        error_message                  ?string
        endpoint_type                  int8     1+  = 1
        cluster_id                     string
        controller_id                  int32        = -1
        brokers                        []
            broker_id                  int32
            host                       string
            port                       int32
            rack                       ?string
        cluster_authorized_operations  int32        = -2147483648
    """,
)

DESCRIBE_LOG_DIRS = api_tables(
    Api.DESCRIBE_LOG_DIRS,
    "1-4",
    flexible_from=2,
    request="""
        topics          ?[]
            topic       string
            partitions  []int32
    """,
    response="""
        throttle_time_ms             int32
        error_code                   int16  3+
        results                      []
            error_code               int16
            log_dir                  string
            topics                   []
                name                 string
                partitions           []
                    partition_index  int32
                    partition_size   int64
                    offset_lag       int64
                    is_future_key    bool
            total_bytes              int64  4+  = -1
            usable_bytes             int64  4+  = -1
    """,
)

OFFSET_FOR_LEADER_EPOCH = api_tables(
    Api.OFFSET_FOR_LEADER_EPOCH,
    "2-4",
    flexible_from=4,
    request="""
        replica_id                    int32  3+  = -2
        topics                        []
            topic                     string
            partitions                []
                partition             int32
                current_leader_epoch  int32      = -1
                leader_epoch          int32
    """,
    response="""
        throttle_time_ms      int32
        topics                []
            topic             string
            partitions        []
                error_code    int16
                partition     int32
                leader_epoch  int32  = -1
                end_offset    int64  = -1
    """,
)

TABLES = (
    *(CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS, DELETE_RECORDS),
    *(DESCRIBE_CONFIGS, ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS),
    *(DESCRIBE_CLUSTER, DESCRIBE_LOG_DIRS, OFFSET_FOR_LEADER_EPOCH),
)
