# SPDX-License-Identifier: BSD-3-Clause
# Runs as the machine's init, from t/kernels/run's initramfs: busybox, and the build's programs in
# /t. What it prints is TAP, behind "tap: ".
/bin/busybox --install -s /bin 2>/dev/null
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t bpf bpf /sys/fs/bpf
mount -t cgroup2 cgroup2 /sys/fs/cgroup && echo +memory >/sys/fs/cgroup/cgroup.subtree_control
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
[ -e /dev/net/tun ] || { mkdir -p /dev/net && mknod /dev/net/tun c 10 200; }
export PATH=/t:/bin SRCDIR=/src BUILDDIR=/build MEMCACHED=/t/memcached
export PYTHONPATH=/src/t/lib PYTHONDONTWRITEBYTECODE=1 T_IN_TURNS=1 # without KVM, one CPU at a time
while read -r module; do
    insmod "$module"
done </modules
ip link set lo up
n=0

result() { # STATUS NAME
    n=$((n + 1))
    if [ "$1" -eq 0 ]; then
        echo "tap: ok $n - $2"
    else
        echo "tap: not ok $n - $2"
    fi
}

program() { # NAME: a program of t/bpf
    $1 >/tmp/log 2>&1 && ! grep -q '^not ok' /tmp/log && grep -q '^1\.\.[1-9]' /tmp/log
    status=$?
    result $status "t/bpf/$1: $(grep -c '^ok' /tmp/log) checks"
    sed -n 's/^# verifier/tap: # verifier/p' /tmp/log
    [ $status -eq 0 ] || tail -n 20 /tmp/log | sed 's/^/tap: # /'
}

script() { # NAME[:CASE,...]: a script of t/kernels or t
    file=/src/t/kernels/${1%%:*}
    [ -e "$file" ] || file=/src/t/e2e/${1%%:*}
    cases=${1#"${1%%:*}"}
    python3 "$file" $(echo "$cases" | tr ':,' '  ') 2>&1 | tee /tmp/log | sed 's/^/tap: # /'
    ! grep -q '^not ok' /tmp/log && grep -q '^1\.\.[1-9]' /tmp/log
    result $? "$1: $(grep -c '^ok' /tmp/log) checks"
}

start() { # WORD: a real server on lo, with items
    memcached -u nobody -l 127.0.0.1 -U 11211 -t 2 -X "$1" >/tmp/server 2>&1 &
    tries=120 # the verifier takes a minute without KVM
    until udpload --populate --keys 100 --seconds 0 127.0.0.1:11211 >/dev/null 2>&1; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || break
        sleep 1
    done
    [ $tries -gt 0 ]
    result $? "the server starts with -X $1 and stores items"
}

count() { # NAME: what stats bmc says
    printf 'stats bmc\r\nquit\r\n' | nc 127.0.0.1 11211 | tr -d '\r' | sed -n "s/^STAT $1 //p"
}

end() {
    sed 's/^/tap: # /' /tmp/server
    kill %1
    wait %1
    result $? "the server ends with status 0"
}

interrupted() { # whether programs interrupt each other here: the server refuses
    case $(uname -v) in
    *PREEMPT_RT*) ;;
    *) return 1 ;;
    esac
    uname -r | (
        IFS=. read -r major minor rest
        [ "$major" -gt 6 ] || { [ "$major" -eq 6 ] && [ "$minor" -ge 18 ]; }
    )
}

refused() { # WORD
    memcached -u nobody -l 127.0.0.1 -U 11211 -X "$1" >/tmp/server 2>&1
    [ $? -eq 71 ] && grep -q PREEMPT_RT /tmp/server
    result $? "the server refuses -X $1: $(head -n 1 /tmp/server)"
    start "$1,optional"
    udpload --keys 100 --count 500 --depth 8 --verify --seconds 20 127.0.0.1:11211 >/tmp/load 2>&1
    result $? "with optional it answers itself: $(head -n 1 /tmp/load)"
    end
}

server() { # with a real client
    start bmc=lo
    udpload --keys 100 --count 2000 --depth 8 --verify --seconds 20 127.0.0.1:11211 >/tmp/load 2>&1
    result $? "2,000 gets, each byte as it should be: $(head -n 1 /tmp/load)"
    hits=$(count hits)
    [ "${hits:-0}" -ge 2000 ]
    result $? "the kernel has answered them: ${hits:-no} hits"
    end
}

streams() { # with a client that checks every byte over TCP
    start bmc=lo,tcp=on,mode=tc
    tcpcheck --connections 20 --operations 2000 --big 0.02 --timeout 150 127.0.0.1 11211 \
        >/tmp/load 2>/tmp/wrong
    result $? "2,000 operations over TCP, each byte as it should be"
    sed 's/^/tap: # /' /tmp/load /tmp/wrong
    answered=$(count tcp_answered)
    [ "${answered:-0}" -ge 100 ]
    result $? "the kernel has answered ${answered:-none} of them"
    end
}

chain() { # a server behind the chain, which keeps nothing before its first --settle has gone by
    start bmc=lo,mode=chain,settle=50,maxage=60000
    right=0
    hits=0
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        udpload --keys 100 --count 500 --depth 8 --verify --seconds 20 127.0.0.1:11211 \
            >/tmp/load 2>&1 || right=1
        hits=$(count hits)
        [ "${hits:-0}" -lt 1000 ] || break
    done
    result $right "gets, each byte as it should be: $(head -n 1 /tmp/load)"
    [ "${hits:-0}" -ge 1000 ]
    result $? "the chain has answered them: ${hits:-no} hits, $(count fills) kept"
    end
}

for test in $(cat /tests); do
    case $test in
    *.t | *.t:*) script "$test" ;;
    server | streams | chain)
        if ! interrupted; then
            $test
        else
            case $test in
            server) refused bmc=lo ;;
            streams) refused bmc=lo,tcp=on,mode=tc ;;
            chain) refused bmc=lo,mode=chain ;;
            esac
        fi
        ;;
    *) program "$test" ;;
    esac
done
echo "tap: 1..$n"
poweroff -f
