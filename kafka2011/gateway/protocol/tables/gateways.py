"""What gateways ask one another; no client knows these requests."""

from __future__ import annotations

from kafka2011.gateway.protocol.fields import Api, api_tables

PLACES = api_tables(
    Api.PLACES,
    "0",
    request="""
        places          []
            topic       string
            partition   int32
            number      int64
            position    int64
            within      int32
    """,
    response="""
        places          []
            error_code  int16
            number      int64
            position    int64
            within      int32
    """,
)
"""Asks for the place of each number, and for the number of each place whose number is -1."""

TABLES = (PLACES,)
