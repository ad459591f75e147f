"""Formats of access logs as servers' settings name them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka2011.collect.access_log import is_unparsed, page_view
from kafka2011.collect.log_format import NAMES, FormatError, check_format

T = "[29/May/2017:19:02:48 +0000]"
TIME_US = 1_496_084_568_000_000
COMMON = f'192.0.2.7 - - {T} "GET /a HTTP/1.1" 200 612'
COMBINED = f'{COMMON} "-" "curl/8"'
SEEN: dict[str, Any] = {
    "remote_host": "192.0.2.7",
    "time": TIME_US,
    "method": "GET",
    "url": "/a",
    "protocol": "HTTP/1.1",
    "status": 200,
    "response_bytes": 612,
}
AGENT = {"user_agent": "curl/8"}
IIS = (
    "#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) cs(Referer)"
    " sc-status sc-substatus time-taken"
)
CLOUDFRONT = "#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status time-taken"
ALB = (
    "$type $time_iso8601 $elb $remote_addr:$remote_port $target $t1 $duration_s $t3 $status $target_status $received"
    ' $response_bytes "$request" "$http_user_agent"'
)
S3 = (
    "$owner $bucket [$time_local] $remote_addr $requester $id $operation $key"
    ' "$request" $status $error $response_bytes $size $duration_ms $turnaround "$http_referer" "$http_user_agent"'
)
SQUID = "$msec $elapsed $remote_addr $cache/$status $response_bytes $method $url $remote_user $peer $type"
NGINX_JSON = '{"at":"$time_iso8601","ip":"$remote_addr","req":"$request","st":$status,"b":$body_bytes_sent}'
APACHE_JSON = '{"at":"%{%Y-%m-%dT%H:%M:%S%z}t","ip":"%a","req":"%r","st":"%>s","b":"%B"}'


@pytest.mark.parametrize(
    ("log_format", "line", "more"),
    [
        pytest.param("common", COMMON, {}, id="common"),
        pytest.param("combined", COMBINED, AGENT, id="combined"),
        pytest.param("combined", f"{COMBINED} 1 2", {**AGENT, "rest": "1 2"}, id="combined and more"),
        pytest.param(
            "vhost_combined",
            f"a.example:443 {COMBINED}",
            {**AGENT, "virtual_host": "a.example", "other_fields": {"server_port": "443"}},
            id="vhost_combined",
        ),
        pytest.param("main", f'{COMBINED} "198.51.100.4"', {**AGENT, "forwarded_for": "198.51.100.4"}, id="main"),
        pytest.param(
            f"{NAMES['main'][: NAMES['main'].rindex(' ')]} rt=$request_time up=$upstream_response_time",
            f"{COMBINED} rt=0.102 up=0.050, 0.052",
            {**AGENT, "duration_us": 102_000, "other_fields": {"upstream_response_time": "0.050, 0.052"}},
            id="upstream times",
        ),
        pytest.param(
            "log_format up '$remote_addr - $remote_user [$time_local] '\n '\"$request\" $status ${body_bytes_sent}';",
            COMMON,
            {},
            id="a setting of nginx",
        ),
        pytest.param(
            r'LogFormat "%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\" %D %T" mine',
            f"{COMBINED} 102345 0",
            {**AGENT, "duration_us": 102_345},
            id="a setting of Apache",
        ),
        pytest.param(
            "%{%Y-%m-%d %H:%M:%S %z}t %a %m %U%q %H %s %O %I %{X-Forwarded-For}i %{ms}T 100%%",
            "2017-05-29 19:02:48 +0000 192.0.2.7 GET /a?x=1 HTTP/1.1 200 612 10 198.51.100.4 12 100%",
            {
                "url": "/a?x=1",
                "forwarded_for": "198.51.100.4",
                "duration_us": 12_000,
                "other_fields": {"bytes_received": "10"},
            },
            id="Apache's directives",
        ),
        pytest.param("%h|%t|%r|%s|%B", f"192.0.2.7|{T}|GET /a HTTP/1.1|200|612", {}, id="bars"),
        pytest.param(
            '$remote_addr,$time_iso8601,$status,$bytes_sent,"$request",$scheme://$host$request_uri',
            '192.0.2.7,2017-05-29T19:02:48+00:00,200,612,"GET /a HTTP/1.1",https://a.example/a',
            {"virtual_host": "a.example", "other_fields": {"scheme": "https"}},
            id="commas, and values without anything between",
        ),
        pytest.param("%h %l %u %t %r %s %b", COMMON.replace('"', ""), {}, id="no quotes"),
        pytest.param(
            "[$time_local] | $scheme://$host$request_uri | $status | $http_user_agent | $remote_addr | $bytes_sent",
            f"{T} | https://a.example/a | 200 | A browser (1.0; X) | 192.0.2.7 | 612",
            {
                "user_agent": "A browser (1.0; X)",
                "virtual_host": "a.example",
                "other_fields": {"scheme": "https"},
                "method": None,
                "protocol": None,
            },
            id="blanks between bars",
        ),
        pytest.param(
            '$remote_addr [$time_local] "$request" $status $bytes_sent $http_user_agent',
            f'192.0.2.7 {T} "GET /a HTTP/1.1" 200 612 A browser (1.0)',
            {"user_agent": "A browser (1.0)"},
            id="an agent without quotes at the end",
        ),
        pytest.param(
            "%h %l %u %t %r %s %b",
            COMMON.replace('"', "").replace("- - [", "- A B ["),
            {"remote_user": "A B"},
            id="user",
        ),
        pytest.param(
            IIS,
            "2017-05-29 19:02:48 10.0.0.1 GET /a x=1 80 - 192.0.2.7 curl/8 - 200 0 15",
            {
                **AGENT,
                "url": "/a?x=1",
                "duration_us": 15_000,
                "protocol": None,
                "response_bytes": None,
                "other_fields": {"s-ip": "10.0.0.1", "s-port": "80", "sc-substatus": "0"},
            },
            id="IIS",
        ),
        pytest.param(
            CLOUDFRONT,
            "2017-05-29\t19:02:48\tLAX1\t612\t192.0.2.7\tGET\ta.example\t/a\t200\t0.001\tmore",
            {
                "virtual_host": "a.example",
                "duration_us": 1000,
                "protocol": None,
                "other_fields": {"x-edge-location": "LAX1"},
                "rest": "more",
            },
            id="CloudFront",
        ),
        pytest.param(
            ALB,
            'http 2017-05-29T19:02:48.000000Z app/a/50dc 192.0.2.7:2817 10.0.0.1:80 0.0 0.001 0.0 200 200 34 612 "GET'
            ' /a HTTP/1.1" "curl/8" - - arn:aws:a',
            {
                **AGENT,
                "duration_us": 1000,
                "rest": "- - arn:aws:a",
                "other_fields": {
                    "type": "http",
                    "elb": "app/a/50dc",
                    "remote_port": "2817",
                    "target": "10.0.0.1:80",
                    "t1": "0.0",
                    "t3": "0.0",
                    "target_status": "200",
                    "received": "34",
                },
            },
            id="AWS load balancer",
        ),
        pytest.param(
            S3,
            f'79a5 a-bucket {T} 192.0.2.7 79a5 3E57 REST.GET - "GET /a HTTP/1.1" 200 - 612 - 7 - "-" "curl/8" -',
            {
                **AGENT,
                "duration_us": 7000,
                "other_fields": {
                    "owner": "79a5",
                    "bucket": "a-bucket",
                    "requester": "79a5",
                    "id": "3E57",
                    "operation": "REST.GET",
                },
                "rest": "-",
            },
            id="S3",
        ),
        pytest.param(
            SQUID,
            "1496084568.000     45 192.0.2.7 TCP_MISS/200 612 GET http://a.example/a - HIER_DIRECT/- text/html",
            {
                "url": "http://a.example/a",
                "protocol": None,
                "other_fields": {"elapsed": "45", "cache": "TCP_MISS", "peer": "HIER_DIRECT/-", "type": "text/html"},
            },
            id="Squid",
        ),
        pytest.param(
            NGINX_JSON,
            '{"at":"2017-05-29T19:02:48+00:00","ip":"192.0.2.7","req":"GET /a HTTP/1.1","st":200,"b":612}',
            {},
            id="nginx, JSON",
        ),
        pytest.param(
            APACHE_JSON,
            '{"at":"2017-05-29T19:02:48+0000","ip":"192.0.2.7","req":"GET /a HTTP/1.1","st":"200","b":"612"}',
            {},
            id="Apache, JSON",
        ),
        pytest.param(
            '{"when": "time", "r": {"ip": "remote_host", "line": "request"}, "s": "status", "b": "response_bytes"}',
            '{"b": 612, "when": 1496084568000, "r": {"ip": "192.0.2.7", "line": "GET /a HTTP/1.1", "x": []}, "s": 200}',
            {},
            id="JSON with the fields' names",
        ),
        pytest.param(
            "json",
            '{"time_iso8601":"2017-05-29T19:02:48Z","remote_addr":"192.0.2.7","request":"GET /a HTTP/1.1","status":'
            '"200","body_bytes_sent":"612","request_time":"0.102"}',
            {"duration_us": 102_000},
            id="json",
        ),
    ],
)
def test_a_line_is_read_by_its_format(log_format: str, line: str, more: dict[str, Any]) -> None:
    found = {name: value for name, value in page_view(line, log_format).items() if value is not None}
    if "other_fields" in found:
        found["other_fields"] = json.loads(found["other_fields"])
    wanted = {name: value for name, value in {**SEEN, **more}.items() if value is not None}
    assert found == {"line": line, **wanted}


@pytest.mark.parametrize(
    ("log_format", "line", "why"),
    [
        ("common", "nothing of the kind", "not as the log format says"),
        ("$remote_addr $status", "192.0.2.7 OK", "status: 'OK' is not three digits"),
        ("$remote_addr $request_time", "192.0.2.7 soon", "duration_s: 'soon' is not a duration"),
        ("$remote_addr $time_iso8601", "192.0.2.7 2017-05-29T19:02:48", "time: '2017-05-29T19:02:48' has no time zone"),
        ("%h %{%H:%M}t", "192.0.2.7 19:02", "time: '19:02' has no time zone: add %z to its format"),
        (IIS, "2017-05-29 19:02:48", "2 values, and the log format has 14"),
        ("json", "no JSON", "not a JSON line: Expecting value: line 1 column 1 (char 0)"),
        ("json", '{"status": 200}', "not a line of an access log: no time, no status, or nothing that was requested"),
        (
            "json",
            '{"time": 1e999, "status": "200", "url": "/"}',
            "time: '1e999' is not like 17/May/2015:10:05:03 +0000",
        ),
    ],
)
def test_a_line_of_another_format_says_what_is_wrong(log_format: str, line: str, why: str) -> None:
    found = page_view(line, log_format)
    assert (found["parse_error"], found["line"]) == (why, line)
    assert is_unparsed(found)


def test_a_header_of_w3c_is_no_unparsed_line() -> None:
    assert not is_unparsed(page_view(IIS, IIS))


@pytest.mark.parametrize(
    "log_format", ["nope", "{", "{}", '{"a": 1}', '"x"', "$nothing", "#Fields: nothing", "%z", "$a" * 101]
)
def test_a_format_that_names_no_field_is_refused(log_format: str) -> None:
    with pytest.raises(FormatError):
        check_format(log_format)


@given(
    log_format=st.lists(
        st.sampled_from(
            ['"', " ", "[", "]", "$request", "$time_local", "$remote_user", "%t", "%h", "%r", "%{x}i", "{", "%U%q"]
        )
    ).map("".join),
    line=st.text(max_size=100) | st.just(COMBINED),
)
def test_any_line_in_any_format_becomes_an_event(log_format: str, line: str) -> None:
    try:
        found = page_view(line, log_format)
    except FormatError:
        return
    assert found["line"] == line.rstrip("\r\n")
