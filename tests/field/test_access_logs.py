"""Access logs that people brought to log analyzers, and what should have been read in them."""

from __future__ import annotations

from typing import Any

import pytest

from kafka2011.collect.access_log import is_unparsed, page_view

T = "[29/May/2017:19:02:48 +0000]"
LINE = f'192.0.2.7 - - {T} "GET /a HTTP/1.1" 200 612 "-" "curl/8"'
READ = {"remote_host": "192.0.2.7", "url": "/a", "status": 200, "user_agent": "curl/8"}


@pytest.mark.parametrize(
    ("line", "more"),
    [
        pytest.param(f'{LINE} "198.51.100.4, 192.0.2.1"', {}, id="goaccess 20"),
        pytest.param(f'{LINE} "-"', {}, id="goaccess 2272"),
        pytest.param(LINE.replace("HTTP/1.1", "HTTP/2.0"), {"protocol": "HTTP/2.0"}, id="goaccess 836"),
        pytest.param(f"a.example:80 {LINE}", {"virtual_host": "a.example:80"}, id="goaccess 645"),
        pytest.param(f"a.example {LINE}", {"virtual_host": "a.example"}, id="goaccess 2973"),
        pytest.param(
            f"a.example:443 {LINE}".replace("192.0.2.7 - -", "host.example - frank"),
            {"virtual_host": "a.example:443", "remote_host": "host.example", "remote_user": "frank"},
            id="goaccess 1255",
        ),
        pytest.param(LINE.replace("192.0.2.7", '"192.0.2.7"'), {}, id="goaccess 984"),
        pytest.param(f"198.51.100.4 {LINE}", {"rest": "198.51.100.4"}, id="goaccess 1059"),
        pytest.param(LINE.replace("- - [", "- a.example a.example - ["), {"remote_user": None}, id="goaccess 336"),
        pytest.param(LINE.replace("- - [", "- 198.51.100.4 ["), {"remote_user": None}, id="goaccess 1766"),
        pytest.param(f'{LINE} 162 "Host-a" "http://10.0.0.3:80" 22ms', {}, id="goaccess 1660"),
        pytest.param(f'{LINE} 1 "ping@internal" - 0ms', {}, id="traefik 6481"),
        pytest.param(LINE.replace('"-" ', "- ") + ' 5 "a" "http://10.0.0.5:80" 3ms', {}, id="traefik 2649"),
    ],
)
def test_a_log_of_a_public_report_is_read(line: str, more: dict[str, Any]) -> None:
    """Read the fields of lines as allinurl/goaccess and traefik/traefik were asked to; the ids name the reports."""
    found = page_view(line)
    assert "parse_error" not in found
    assert {name: found[name] for name in {**READ, **more}} == {**READ, **more}


def test_quotes_in_a_user_agent_that_are_not_escaped_give_no_wrong_agent() -> None:
    """Say that a line cannot be parsed, where its agent ends at any of several quotes (traefik/traefik 11722)."""
    for line in (LINE.replace("curl/8", 'foo " bar'), LINE.replace("curl/8", 'foo " bar') + ' 116 "a@file" "b" 1ms'):
        found = page_view(line)
        assert is_unparsed(found)
        assert "user_agent" not in found


@pytest.mark.parametrize(
    ("log_format", "line"),
    [
        pytest.param(
            '"$proxy_add_x_forwarded_for" $remote_addr $host [$time_local] "$request" $status $body_bytes_sent'
            ' $request_length "$http_referer" "$http_user_agent" $request_time "$gzip_ratio"',
            f'"198.51.100.4" 192.0.2.7 a.example {T} "GET /a HTTP/1.1" 200 88 394 "-" "curl/8" 5.564 "-"',
            id="goaccess 429",
        ),
        pytest.param(
            "[$time_local] | $scheme://$host$request_uri | $status | $http_user_agent | $remote_addr | $request_time",
            f"{T} | https://a.example/a | 200 | curl/8 | 192.0.2.7 | 0.359",
            id="goaccess 1098",
        ),
        pytest.param(
            '{"ClientHost": "remote_host", "DownstreamStatus": "status", "RequestPath": "url", "time": "time",'
            ' "agent": "user_agent"}',
            '{"ClientHost":"192.0.2.7","DownstreamStatus":200,"RequestPath":"/a","time":"2017-05-29T19:02:48Z",'
            '"agent":"curl/8"}',
            id="goaccess 2757",
        ),
    ],
)
def test_a_format_of_a_public_report_is_read(log_format: str, line: str) -> None:
    """Read lines by the format that the report names; the ids are reports to allinurl/goaccess."""
    found = page_view(line, log_format)
    assert "parse_error" not in found
    assert {name: found[name] for name in READ} == READ
