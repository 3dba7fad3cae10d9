// SPDX-License-Identifier: BSD-3-Clause

//! Connections to a memcached by smoltcp instead of the kernel's TCP. It has an address of its own
//! on an interface, and checks every byte of every reply; see t/lib/stacks.py.
//!
//!     session INTERFACE ADDRESS SERVER PORT CONNECTIONS SECONDS
//!
//! It asks until its standard input ends, and prints one line of "name number" pairs. SECONDS
//! without a byte are a hang.

use std::io::Read;
use std::os::unix::io::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{wait, Medium, RawSocket};
use smoltcp::socket::tcp;
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, IpCidr, Ipv4Address};

/// Of values: in the middle of a segment, most of one, more than one, and many.
const SIZES: [usize; 4] = [10, 700, 1500, 100000];
const GETS: usize = 12;
/// smoltcp fills a segment without counting its timestamps, and then drops it as too long.
const SENT_AT_ONCE: usize = 1400;

static OVER: AtomicBool = AtomicBool::new(false);

#[derive(Default)]
struct Counts {
    operations: u64,
    wrong: u64,
    broken: u64,
    hangs: u64,
}

/// One connection, which knows the version of each of its values.
struct Client {
    handle: SocketHandle,
    number: usize,
    step: usize,
    versions: [usize; 4],
    out: Vec<u8>,
    sent: usize,
    want: Vec<u8>,
    got: usize,
    progress: Instant,
    done: bool,
}

impl Client {
    fn key(&self, k: usize) -> String {
        format!("st{}-{}", self.number, k)
    }

    fn value(&self, k: usize) -> Vec<u8> {
        let start = self.number * 31 + k * 7 + self.versions[k] * 13;
        (0..SIZES[k]).map(|i| ((start + i) % 251) as u8).collect()
    }

    fn ask(&mut self, head: String, body: &[u8], reply: String, text: &[u8], tail: &str) {
        self.out = [head.as_bytes(), body].concat();
        self.want = [reply.as_bytes(), text, tail.as_bytes()].concat();
        self.sent = 0;
        self.got = 0;
    }

    fn set(&mut self, k: usize) {
        self.versions[k] += 1;
        let text = [&self.value(k)[..], b"\r\n"].concat();
        let head = format!("set {} 0 0 {}\r\n", self.key(k), SIZES[k]);
        self.ask(head, &text, "STORED\r\n".into(), b"", "");
    }

    fn get(&mut self, k: usize) {
        let reply = format!("VALUE {} 0 {}\r\n", self.key(k), SIZES[k]);
        self.ask(format!("get {}\r\n", self.key(k)), b"", reply, &self.value(k), "\r\nEND\r\n");
    }

    /// Each value is written first, and then now and then; most gets are of the short ones.
    fn begin(&mut self, now: Instant) {
        let step = self.step;
        self.step += 1;
        self.progress = now;
        if step < SIZES.len() {
            return self.set(step);
        }
        let (round, at) = ((step - SIZES.len()) / (GETS + 1), (step - SIZES.len()) % (GETS + 1));
        match at {
            0 => self.set(round % SIZES.len()),
            GETS => self.get(3),
            _ if at % 4 == 0 => self.get(2),
            _ if at % 4 == 3 => self.ask("get none\r\n".into(), b"", "END\r\n".into(), b"", ""),
            _ => self.get(at % 2),
        }
    }

    fn fail(&mut self, socket: &mut tcp::Socket, counter: &mut u64, why: &str) {
        eprintln!(
            "connection {}: {}: {:?}, {} of {} bytes of the reply",
            self.number,
            why,
            String::from_utf8_lossy(&self.out[..self.out.len().min(40)]),
            self.got,
            self.want.len()
        );
        *counter += 1;
        self.done = true;
        socket.abort();
    }

    fn take(&mut self, socket: &mut tcp::Socket, now: Instant, counts: &mut Counts) -> bool {
        let mut bytes = [0; 65536];
        while let Ok(n @ 1..) = socket.recv_slice(&mut bytes) {
            if n > self.want.len() - self.got || bytes[..n] != self.want[self.got..self.got + n] {
                self.fail(socket, &mut counts.wrong, "other bytes than expected");
                return false;
            }
            self.got += n;
            self.progress = now;
        }
        true
    }

    fn turn(&mut self, socket: &mut tcp::Socket, now: Instant, patience: Duration,
            counts: &mut Counts) {
        if self.done || !self.take(socket, now, counts) {
            return;
        }
        if self.got == self.want.len() {
            counts.operations += (self.step > 0) as u64;
            if OVER.load(Ordering::Relaxed) {
                self.done = true;
                socket.close();
                return;
            }
            if !socket.may_send() && socket.is_open() && self.step == 0 {
                return; // it connects
            }
            self.begin(now);
        }
        if !socket.may_send() || (!socket.may_recv() && self.step > 0) {
            return self.fail(socket, &mut counts.broken, "the server ends the connection");
        }
        if self.sent < self.out.len() && socket.send_queue() == 0 {
            let end = self.out.len().min(self.sent + SENT_AT_ONCE);
            self.sent += socket.send_slice(&self.out[self.sent..end]).unwrap_or(0);
        }
        if (now - self.progress).total_millis() > patience.as_millis() as u64 {
            self.fail(socket, &mut counts.hangs, "a hang");
        }
    }
}

fn tsval() -> u32 {
    Instant::now().total_millis() as u32
}

fn dial(iface: &mut Interface, sockets: &mut SocketSet, server: (Ipv4Address, u16),
        number: usize) -> Client {
    let room = || tcp::SocketBuffer::new(vec![0; 65535]);
    let mut socket = tcp::Socket::new(room(), room());
    socket.set_tsval_generator(Some(tsval));
    socket.set_nagle_enabled(false);
    socket.connect(iface.context(), server, 49152 + number as u16).unwrap();
    Client {
        handle: sockets.add(socket),
        number,
        step: 0,
        versions: [0; 4],
        out: vec![],
        sent: 0,
        want: vec![],
        got: 0,
        progress: Instant::now(),
        done: false,
    }
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    if words.len() != 7 {
        panic!("usage: session INTERFACE ADDRESS SERVER PORT CONNECTIONS SECONDS");
    }
    let server = (words[3].parse::<Ipv4Address>().unwrap(), words[4].parse::<u16>().unwrap());
    let patience = Duration::from_secs(words[6].parse().unwrap());
    let mut device = RawSocket::new(&words[1], Medium::Ethernet).unwrap();
    let mut config = Config::new(EthernetAddress([2, 0x4d, 0x43, 0, 9, 2]).into());
    config.random_seed = Instant::now().total_micros() as u64;
    let mut iface = Interface::new(config, &mut device, Instant::now());
    iface.update_ip_addrs(|all| {
        all.push(IpCidr::new(words[2].parse::<Ipv4Address>().unwrap().into(), 24)).unwrap()
    });
    let mut sockets = SocketSet::new(vec![]);
    let mut clients: Vec<Client> = (0..words[5].parse().unwrap())
        .map(|i| dial(&mut iface, &mut sockets, server, i))
        .collect();
    let mut counts = Counts::default();
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut vec![]);
        OVER.store(true, Ordering::Relaxed);
    });
    while !clients.iter().all(|client| client.done) {
        let now = Instant::now();
        iface.poll(now, &mut device, &mut sockets);
        for client in &mut clients {
            client.turn(sockets.get_mut(client.handle), now, patience, &mut counts);
        }
        iface.poll(now, &mut device, &mut sockets);
        let most = smoltcp::time::Duration::from_millis(20);
        let delay = iface.poll_delay(now, &sockets).map_or(most, |delay| delay.min(most));
        wait(device.as_raw_fd(), Some(delay)).unwrap();
    }
    println!("operations {} wrong {} broken {} hangs {}", counts.operations, counts.wrong,
             counts.broken, counts.hangs);
}
