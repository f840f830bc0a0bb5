"""Reads what a broker says over HTTP."""

import http.client
import re

from broker import DEADLINE

SERIES = re.compile(r'^(\w+)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'(\w+)="([^"]*)"')


def http_address(broker):
    return broker.wait_for_line(
        r'listening for HTTP(?: address=|","address":")([^\s"]+)').group(1)


def get(address, path, method="GET", headers=None):
    """(status, body) of one request on a connection of its own."""
    connection = http.client.HTTPConnection(address, timeout=DEADLINE)
    try:
        connection.request(method, path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def read_metrics(address):
    """{(name, labels as sorted pairs): value}; no series may come twice."""
    status, text = get(address, "/metrics")
    assert status == 200, text
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, labels, value = SERIES.match(line).groups()
        key = name, tuple(sorted(LABEL.findall(labels or "")))
        assert key not in found, line
        found[key] = float(value)
    return found
