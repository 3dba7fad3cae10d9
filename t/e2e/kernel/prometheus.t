#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# t/run: waits
"""From the kernel path to Prometheus: memcached-tool writes a file, Debian's node_exporter reads
it, Debian's Prometheus scrapes that, evaluates the alerts and answers the dashboard's queries."""
import json
import os
import re
import shutil
import urllib.error
import urllib.parse
import urllib.request

import child
import kernel
import server
import tap
from tooling import OURS, PROMETHEUS, Scripted, call, lint, metrics, stats_reply

SETTINGS = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: ["{rules}"]
scrape_configs:
  - job_name: memcached
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""
# What memcached-tool leaves out on purpose: sums of others, text.
TEXT = re.compile(r"(bmc_enabled|mode|allow|interfaces|ports_left_out|.*:(xdp|tc|before|state))$")
SHARE = "memcached:kernel_share:ratio_rate5m"
SUMS = {"keys", "tcp_answered"}

for program in ("prometheus", "promtool", "prometheus-node-exporter"):
    if not shutil.which(program):
        tap.skip_all("%s is missing: tools/packages --install check" % program)

m = kernel.Machines(words=("tcp=on",))
address = "%s:%d" % (m.server.host, m.server.port)
folder = server.scratch()
path = os.path.join(folder, "memcached.prom")


class Web(child.Child):
    """A program with a page over HTTP, on this process's loopback interface."""

    def __init__(self, program, *words):
        self.port = server.free_port()
        super().__init__([program, "--web.listen-address=127.0.0.1:%d" % self.port,
                          "--log.level=error", *words], program)

    def page(self, where):
        """None: it does not answer yet."""
        try:
            with urllib.request.urlopen("http://127.0.0.1:%d%s" % (self.port, where)) as reply:
                return reply.read()
        except urllib.error.HTTPError as error:
            return error.read()
        except (urllib.error.URLError, ConnectionError):
            return None


class Prometheus(Web):
    def __init__(self, port):
        home = server.scratch()
        settings = os.path.join(home, "settings.yml")
        with open(settings, "w", encoding="ascii") as file:
            file.write(SETTINGS.format(rules=os.path.join(PROMETHEUS, "alerts.yml"), port=port))
        super().__init__("prometheus", "--config.file=" + settings,
                         "--storage.tsdb.path=" + os.path.join(home, "data"))

    def query(self, expression):
        """[(labels, value)]"""
        page = self.page("/api/v1/query?" + urllib.parse.urlencode({"query": expression}))
        answer = json.loads(page or '{"status": "no answer"}')
        if answer["status"] != "success":
            return []
        return [(row["metric"], float(row["value"][1])) for row in answer["data"]["result"]]


exporter = Web("prometheus-node-exporter", "--collector.disable-defaults", "--collector.textfile",
               "--collector.textfile.directory=" + folder)
prometheus = Prometheus(exporter.port)


def write():
    return call(OURS, address, "prometheus", "--output", path)


def traffic():
    """Gets of every kind: hits and misses over UDP, some for the server, hits over TCP."""
    m.tcp.set(b"foo", b"bar")
    for request in (b"get foo\r\n", b"get none\r\n", b"get foo none\r\n", b"version\r\n"):
        for _ in range(10):
            m.udp.ask(request)
    for _ in range(10):
        m.tcp.get(b"foo")


def expressions():
    """(title, query) of the dashboard, for all servers."""
    with open(os.path.join(PROMETHEUS, "dashboard.json"), encoding="utf-8") as file:
        dashboard = json.load(file)
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"].replace("$__rate_interval", "1m") \
                .replace("$server", ".*")


@tap.case
def every_row_of_stats_bmc_is_a_metric():
    rows = m.tcp.stats("bmc")
    names = [name for name in rows if not TEXT.match(name)]
    names.append("a_later_row")
    numbered = dict(rows, **{name: 1000 + i for i, name in enumerate(names)})
    scripted = Scripted({"stats": stats_reply({"version": "1"}), "stats slabs": stats_reply({}),
                         "stats items": stats_reply({}), "stats bmc": stats_reply(numbered)})
    text = call(OURS, scripted.address, "prometheus")[1]
    printed = {int(value) for value in metrics(text).values()}
    tap.ok(len(names) > 60, "%d rows" % len(names))
    tap.is_({name for name in names if numbered[name] not in printed}, SUMS,
            "each value is printed, but for sums")
    tap.is_(len([v for v in printed if v >= 1000]), len(names) - len(SUMS),
            "none is printed twice")
    tap.is_(lint(text), (0, b""), "promtool accepts them")
    tap.like(text, r'^memcached_bmc_interface_up\{server="[^"]+",interface="sv0"\} 1$',
             "the interface is up")
    tap.like(text, r'^memcached_bmc_interface_info\{.*,interface="sv0",before="none",state="up",'
                   r'tc="yes",xdp="native"\} 1$', "and how it is attached")
    scripted.close()


@tap.case
def the_dashboard_names_metrics_that_exist():
    traffic()
    known = {name for name, _ in metrics(call(OURS, address, "prometheus")[1])}
    named = {name for _, query in expressions() for name in re.findall(r"memcached_\w+", query)}
    tap.ok(len(named) > 20, "%d metrics are named" % len(named))
    tap.is_(sorted(named - known), [], "the tool prints each of them")


@tap.case
def the_alerts_name_metrics_that_exist():
    with open(os.path.join(PROMETHEUS, "alerts.yml"), encoding="utf-8") as file:
        rules = re.sub(r"(?m)#.*|^ +(description|summary):.*(?:\n {12}.*)*", "", file.read())
    known = {name for name, _ in metrics(call(OURS, address, "prometheus")[1])}
    named = set(re.findall(r"\bmemcached_\w+(?=[ {\[])", rules))
    tap.ok(len(named) >= 9, "%d metrics are named" % len(named))
    tap.is_(sorted(named - known), [], "the tool prints each of them")


@tap.case
def the_dashboard_has_something_to_show():
    left = list(expressions())
    count = len(left)

    def shown():
        traffic()
        write()
        left[:] = [(title, query) for title, query in left if not prometheus.query(query)]
        return not left

    tap.ok(count > 30, "%d queries" % count)
    server.wait_for(shown, 60, 0.3)
    tap.is_(left, [], "Prometheus answers each with data")
    server.wait_for(lambda: prometheus.query(SHARE), 50, 0.2) # rules are evaluated each second
    share = [value for _, value in prometheus.query(SHARE)]
    tap.ok(len(share) == 1 and 0.5 < share[0] <= 1, "the share of the kernel is recorded")


@tap.case
def prometheus_has_the_servers_values():
    m.by_kernel(b"get foo\r\n")
    write()
    hits = int(m.tcp.stats("bmc")["hits"])
    tap.ok(server.wait_for(lambda: [value for _, value in prometheus.query(
        'memcached_bmc_keys_total{status="hit"}')] == [hits], 50, 0.2), "%d hits" % hits)
    tap.ok(prometheus.query("time() - node_textfile_mtime_seconds{file=~\".*/memcached.*prom\"}"),
           "and when the file was written")


@tap.case
def a_bypass_is_noticed():
    def alert():
        return [labels["alertstate"] for labels, _ in
                prometheus.query('ALERTS{alertname="MemcachedBypass"}')]

    tap.is_(alert(), [], "there is no alert")
    m.tcp.ask(b"verbosity 2\r\n")
    write()
    tap.ok(server.wait_for(lambda: alert() == ["pending"], 50, 0.2),
           "the bypass waits for its ten minutes")
    m.tcp.ask(b"verbosity 0\r\n")
    write()
    tap.ok(server.wait_for(lambda: not alert(), 50, 0.2), "it ends with the bypass")


@tap.case
def a_dead_server_is_noticed():
    m.server.kill()
    tap.is_(write()[0], 111, "the tool fails")
    tap.ok(server.wait_for(lambda: prometheus.query(
        'ALERTS{alertname="MemcachedDown",alertstate="pending"}'), 50, 0.2),
           "the alert is pending")


@tap.case
def everything_ends():
    exporter.kill()
    prometheus.kill()
    m.leave()
    tap.ok(m.pair.server not in os.listdir("/run/netns"), "no namespace stays")


tap.run(200)
