// SPDX-License-Identifier: BSD-3-Clause

//! Gets without an end, for bench/clients: load ascii|binary HOST PORT
//! Every value is compared.
use memcache::Client;

const ITEMS: usize = 1000;

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let url = format!("memcache://{}:{}?protocol={}", words[2], words[3], words[1]);
    let client = Client::connect(url.as_str()).expect("connect");
    for place in (0..ITEMS).cycle() {
        let key = format!("load:{:03}", place * 7 % ITEMS);
        let value: Option<String> = client.get(&key).expect("get");
        assert_eq!(value, Some(format!("{key:.<100}")));
    }
}
