#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Monitoring software for memcached: collectd's plugin and its Prometheus endpoint, as Debian
packages them, beside Debian's memcached."""
import os
import re
import shutil
import urllib.error
import urllib.request

import child
import netns
import server
import tap

COLLECTD = "/usr/sbin/collectd"
DEBIAN = "/usr/bin/memcached"
SETTINGS = """
BaseDir "{dir}"
PIDFile "{dir}/pid"
TypesDB "/usr/share/collectd/types.db"
Interval 1
Hostname "t"
LoadPlugin memcached
LoadPlugin write_prometheus
<Plugin memcached>
  <Instance "ours">
    Host "127.0.0.1"
    Port "{ours}"
  </Instance>
  <Instance "debian">
    Host "127.0.0.1"
    Port "{debian}"
  </Instance>
</Plugin>
<Plugin write_prometheus>
  Host "127.0.0.1"
  Port "{metrics}"
</Plugin>
"""
SAMPLE = re.compile(r'^(\w+)\{memcached="(\w+)",?(.*)\} (\S+) \d+$', re.M)


class Exporter(child.Child):
    def __init__(self, ours, debian):
        folder, self.port = server.scratch(), server.free_port()
        path = os.path.join(folder, "conf")
        with open(path, "w", encoding="ascii") as file:
            file.write(SETTINGS.format(dir=folder, ours=ours, debian=debian, metrics=self.port))
        super().__init__([COLLECTD, "-f", "-C", path], "collectd")

    def samples(self):
        """{instance: {(name, labels): value}} of the last interval."""
        found = {"ours": {}, "debian": {}}
        try:
            with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % self.port) as reply:
                text = reply.read().decode("ascii")
        except (urllib.error.URLError, ConnectionError):
            return found
        for name, instance, labels, value in SAMPLE.findall(text):
            labels = labels.replace(',instance="t"', "").replace('instance="t"', "")
            found[instance][name, labels] = float(value)
        return found


def start_debian():
    port = server.free_port()
    return port, child.Child([DEBIAN, "-u", "nobody", "-l", "127.0.0.1", "-p", port],
                             "Debian's memcached")


for program in (COLLECTD, DEBIAN):
    if not shutil.which(program):
        tap.skip_all("%s is missing: tools/packages --install check" % program)
if os.geteuid() != 0:
    tap.skip_all("the kernel path needs root")

pair = netns.Pair() # with an address beside those of lo, or collectd resolves none
netns.enter(pair.server)
ours = server.Server("-X", "bmc=lo")
debian_port, debian = start_debian()
exporter = Exporter(ours.port, debian_port)
HITS = ("collectd_memcached_memcached_ops_total", 'type="hits"')


@tap.case
def every_metric_has_its_name():
    samples = {}

    def complete():
        samples.update(exporter.samples())
        return len(samples["ours"]) > 20 and len(samples["ours"]) == len(samples["debian"])

    server.wait_for(complete, 60, 0.2)
    tap.is_(sorted(samples["ours"]), sorted(samples["debian"]),
            "it has the same metrics as Debian's memcached, %d" % len(samples["debian"]))
    tap.ok(len(samples["ours"]) > 20, "these are all that the plugin knows")


@tap.case
def hits_of_the_kernel_are_in_the_metrics():
    control, udp = ours.stream(), ours.udp()
    control.set(b"foo", b"bar")
    before = int(control.stats("bmc")["hits"])
    for _ in range(10):
        udp.ask(b"get foo\r\n")
    tap.is_(int(control.stats("bmc")["hits"]) - before, 10, "the kernel answers ten gets")
    tap.ok(server.wait_for(lambda: exporter.samples()["ours"].get(HITS) == 10, 60, 0.2),
           "the exporter counts ten hits")
    udp.close()
    control.close()


@tap.case
def it_ends():
    exporter.kill()
    debian.kill()
    tap.is_(ours.stop(), 0, "the server ends with status 0")
    pair.close()


tap.run()
