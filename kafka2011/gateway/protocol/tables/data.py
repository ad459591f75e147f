"""What producers and consumers send: versions, metadata, produce, fetch, offsets, coordinators, producer ids."""

from __future__ import annotations

from kafka2011.gateway.protocol.fields import Api, api_tables

API_VERSIONS = api_tables(
    Api.API_VERSIONS,
    "0-4",
    flexible_from=3,
    request="""
        client_software_name     string   3+
        client_software_version  string   3+
    """,
    response="""
        error_code        int16
        api_keys          []
            api_key       int16
            min_version   int16
            max_version   int16
        throttle_time_ms  int32   1+
    """,
)

METADATA = api_tables(
    Api.METADATA,
    "0-12",
    flexible_from=9,
    request="""
        topics                                 []       0
            name                               string
        topics                                 ?[]      1+
            topic_id                           uuid     10+
            name                               string   1-9
            name                               ?string  10+
        allow_auto_topic_creation              bool     4+   = true
        include_cluster_authorized_operations  bool     8-10
        include_topic_authorized_operations    bool     8+
    """,
    response="""
        throttle_time_ms                 int32    3+
        brokers                          []
            node_id                      int32
            host                         string
            port                         int32
            rack                         ?string  1+
        cluster_id                       ?string  2+
        controller_id                    int32    1+     = -1
        topics                           []
            error_code                   int16
            name                         string   0-11
            name                         ?string  12+
            topic_id                     uuid     10+
            is_internal                  bool     1+
            partitions                   []
                error_code               int16
                partition_index          int32
                leader_id                int32
                leader_epoch             int32    7+     = -1
                replica_nodes            []int32
                isr_nodes                []int32
                offline_replicas         []int32  5+
            topic_authorized_operations  int32    8+     = -2147483648
        cluster_authorized_operations    int32    8-10   = -2147483648
    """,
)

PRODUCE = api_tables(
    Api.PRODUCE,
    "3-9",
    flexible_from=9,
    request="""
        transactional_id  ?string
        acks              int16
        timeout_ms        int32
        topic_data        []
            name          string
            partition_data  []
                index     int32
                records   ?records
    """,
    response="""
        responses                              []
            name                               string
            partition_responses                []
                index                          int32
                error_code                     int16
                base_offset                    int64
                log_append_time_ms             int64            = -1
                log_start_offset               int64    5+      = -1
                record_errors                  []       8+
                    batch_index                int32
                    batch_index_error_message  ?string
                error_message                  ?string  8+
        throttle_time_ms                       int32
    """,
)

FETCH = api_tables(
    Api.FETCH,
    "4-18",
    flexible_from=12,
    request="""
        replica_id                int32   4-14     = -1
        max_wait_ms               int32
        min_bytes                 int32
        max_bytes                 int32            = 2147483647
        isolation_level           int8
        session_id                int32    7+
        session_epoch             int32    7+      = -1
        topics                    []
            topic                 string  4-12
            topic_id              uuid    13+
            partitions            []
                partition             int32
                current_leader_epoch  int32   9+   = -1
                fetch_offset          int64
                last_fetched_epoch    int32   12+  = -1
                log_start_offset      int64   5+   = -1
                partition_max_bytes   int32
        forgotten_topics_data     []       7+
            topic                 string  7-12
            topic_id              uuid    13+
            partitions            []int32
        rack_id                   string   11+
    """,
    response="""
        throttle_time_ms                    int32
        error_code                          int16    7+
        session_id                          int32    7+
        responses                           []
            topic                           string   4-12
            topic_id                        uuid     13+
            partitions                      []
                partition_index             int32
                error_code                  int16
                high_watermark              int64
                last_stable_offset          int64            = -1
                log_start_offset            int64    5+      = -1
                aborted_transactions        ?[]
                    producer_id             int64
                    first_offset            int64
                preferred_read_replica      int32    11+     = -1
                records                     ?records
    """,
)

LIST_OFFSETS = api_tables(
    Api.LIST_OFFSETS,
    "1-7",
    flexible_from=6,
    request="""
        replica_id                    int32
        isolation_level               int8    2+
        topics                        []
            name                      string
            partitions                []
                partition_index       int32
                current_leader_epoch  int32   4+  = -1
                timestamp             int64
    """,
    response="""
        throttle_time_ms         int32   2+
        topics                   []
            name                 string
            partitions           []
                partition_index  int32
                error_code       int16
                timestamp        int64        = -1
                offset           int64        = -1
                leader_epoch     int32   4+   = -1
    """,
)

FIND_COORDINATOR = api_tables(
    Api.FIND_COORDINATOR,
    "0-4",
    flexible_from=3,
    request="""
        key               string    0-3
        key_type          int8      1+
        coordinator_keys  []string  4+
    """,
    response="""
        throttle_time_ms   int32    1+
        error_code         int16    0-3
        error_message      ?string  1-3
        node_id            int32    0-3
        host               string   0-3
        port               int32    0-3
        coordinators       []       4+
            key            string
            node_id        int32
            host           string
            port           int32
            error_code     int16
            error_message  ?string
    """,
)

INIT_PRODUCER_ID = api_tables(
    Api.INIT_PRODUCER_ID,
    "0-4",
    flexible_from=2,
    request="""
        transactional_id        ?string
        transaction_timeout_ms  int32
        producer_id             int64    3+  = -1
        producer_epoch          int16    3+  = -1
    """,
    response="""
        throttle_time_ms  int32
        error_code        int16
        producer_id       int64   = -1
        producer_epoch    int16
    """,
)

TABLES = (API_VERSIONS, METADATA, PRODUCE, FETCH, LIST_OFFSETS, FIND_COORDINATOR, INIT_PRODUCER_ID)
