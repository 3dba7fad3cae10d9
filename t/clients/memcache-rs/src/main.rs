// SPDX-License-Identifier: BSD-3-Clause

//! A session of the crate memcache: session URL, as memcache+udp://127.0.0.1:11211
use std::collections::HashMap;
use std::fmt::Debug;
use std::process::exit;
use std::thread::sleep;
use std::time::{Duration, Instant};

use memcache::{Client, MemcacheError};

#[derive(Default)]
struct Report {
    count: u32,
    failed: u32,
}

impl Report {
    fn ok(&mut self, passed: bool, name: &str) -> bool {
        self.count += 1;
        self.failed += u32::from(!passed);
        println!("{}ok {} - {}", if passed { "" } else { "not " }, self.count, name);
        passed
    }

    fn is<T: Debug + PartialEq>(&mut self, got: Result<T, MemcacheError>, want: T, name: &str) {
        let passed = matches!(&got, Ok(value) if *value == want);
        if !self.ok(passed, name) {
            println!("# got:  {:.300}", format!("{got:?}"));
            println!("# want: {:.300}", format!("{want:?}"));
        }
    }
}

fn text(value: &str) -> Option<String> {
    Some(value.to_string())
}

/// Ignores the results of add and replace: over text the crate takes NOT_STORED for success.
fn storage(r: &mut Report, c: &Client) {
    r.ok(c.version().is_ok(), "version");
    r.is(c.set("a", "1", 0), (), "set");
    r.is(c.get("a"), text("1"), "get returns the value");
    r.is(c.get::<String>("none"), None, "get misses");
    let _ = c.add("a", "2", 0);
    r.is(c.get("a"), text("1"), "add keeps an existing value");
    r.is(c.add("b", "2", 0), (), "add stores a missing key");
    let _ = c.replace("none", "2", 0);
    r.is(c.get::<String>("none"), None, "replace stores no missing key");
    r.is(c.replace("b", "3", 0), (), "replace stores an existing key");
    r.is(c.append("b", "4"), (), "append");
    r.is(c.prepend("b", "2"), (), "prepend");
    r.is(c.get("b"), text("234"), "the value has all three parts");
    r.is(c.delete("a"), true, "delete");
    r.is(c.delete("a"), false, "delete again");
}

fn unique_ids(r: &mut Report, c: &Client) {
    r.is(c.set("cas", "1", 0), (), "set");
    let (value, _, cas): (Vec<u8>, u32, Option<u64>) = c.get("cas").unwrap().unwrap();
    r.ok(value == b"1" && cas.is_some(), "get returns a unique id");
    let cas = cas.unwrap_or(1);
    r.is(c.cas("cas", "2", 0, cas), true, "cas with the id of get stores");
    r.is(c.cas("cas", "3", 0, cas), false, "cas with the old id stores nothing");
    r.is(c.cas("none", "3", 0, cas), false, "cas of a missing key stores nothing");
    r.is(c.get("cas"), text("2"), "the value is that of the first cas");
}

fn numbers(r: &mut Report, c: &Client) {
    r.is(c.set("n", 10, 0), (), "set of a number");
    r.is(c.increment("n", 5), 15, "incr");
    r.is(c.decrement("n", 6), 9, "decr");
    r.is(c.decrement("n", 100), 0, "decr stops at 0");
    r.is(c.set("n", "word", 0), (), "set of a word");
    r.ok(c.increment("n", 1).is_err(), "incr of a word is an error");
}

fn values(r: &mut Report, c: &Client, largest: usize) {
    let all: Vec<u8> = (0..=255).collect();
    let mut size = 1;
    r.is(c.set("v", &b""[..], 0), (), "set of no bytes");
    r.is(c.get::<Vec<u8>>("v"), Some(vec![]), "get returns it");
    while size <= largest {
        let value: Vec<u8> = all.iter().cycle().take(size).copied().collect();
        r.is(c.set("v", &value[..], 0), (), &format!("set of {size} bytes"));
        r.is(c.get::<Vec<u8>>("v"), Some(value), "get returns them");
        size *= 11;
    }
}

/// A value larger than a request over UDP: the server builds it by appends.
fn many_datagrams(r: &mut Report, c: &Client) {
    let piece = "0123456789".repeat(100);
    let mut want = String::new();
    c.set("d", "", 0).unwrap();
    for _ in 0..64 {
        c.append("d", piece.as_str()).unwrap();
        want += &piece;
    }
    r.is(c.get("d"), Some(want), "get returns a value of 64,000 bytes");
}

fn thousand(r: &mut Report, c: &Client) {
    let right = (0..1000)
        .filter(|i| {
            let (key, value) = (format!("k{i}"), format!("value {i}"));
            c.set(&key, &value, 0).is_ok() && c.get(&key).ok().flatten() == Some(value)
        })
        .count();
    r.is(Ok(right), 1000, "a thousand sets and gets");
}

/// Several keys in a request, which the crate can send over TCP only.
fn together(r: &mut Report, c: &Client) {
    let want: HashMap<String, String> =
        (0..100).map(|i| (format!("k{i}"), format!("value {i}"))).collect();
    let mut keys: Vec<&str> = want.keys().map(String::as_str).collect();
    keys.push("none");
    r.is(c.gets(&keys), want.clone(), "a get of 100 keys returns their values");
}

fn gone(r: &mut Report, c: &Client, key: &str, name: &str) {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(30) && matches!(c.get::<String>(key), Ok(Some(_))) {
        sleep(Duration::from_millis(50));
    }
    r.is(c.get::<String>(key), None, name);
}

fn times(r: &mut Report, c: &Client) {
    r.is(c.set("t", "x", 1), (), "set for 1 s");
    r.is(c.set("u", "x", 0), (), "set for ever");
    r.is(c.touch("u", 1), true, "touch");
    r.is(c.touch("none", 1), false, "touch of a missing key");
    gone(r, c, "t", "an item expires");
    gone(r, c, "u", "a touched item expires");
}

/// Over text the crate takes the first line of stats for the end.
fn the_server(r: &mut Report, c: &Client, text_protocol: bool) {
    if !text_protocol {
        let stats = c.stats().unwrap();
        r.ok(stats[0].1.contains_key("pid"), "stats");
    }
    r.is(c.get("b"), text("234"), "an item exists");
    r.is(c.flush(), (), "flush_all");
    r.is(c.get::<String>("b"), None, "get misses afterwards");
}

fn main() {
    let url = std::env::args().nth(1).expect("session URL");
    let udp = url.starts_with("memcache+udp:");
    let client = Client::connect(url.as_str()).expect("connect");
    let timeout = Some(Duration::from_secs(30));
    client.set_read_timeout(timeout).expect("timeout");
    let mut report = Report::default();
    let r = &mut report;

    storage(r, &client);
    unique_ids(r, &client);
    numbers(r, &client);
    values(r, &client, if udp { 1331 } else { 1_000_000 });
    many_datagrams(r, &client);
    thousand(r, &client);
    if !udp {
        together(r, &client);
    }
    times(r, &client);
    the_server(r, &client, url.contains("protocol=ascii"));
    println!("1..{}", report.count);
    exit(i32::from(report.failed > 0));
}
