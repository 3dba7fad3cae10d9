// SPDX-License-Identifier: BSD-3-Clause

// netstack: connections to a memcached by gVisor's TCP instead of the kernel's. It has an address
// of its own on an interface, and checks every byte of every reply; see t/lib/stacks.py.
//
//	session INTERFACE ADDRESS SERVER PORT CONNECTIONS SECONDS [gets]
//
// It asks until its standard input ends, and prints one line of "name number" pairs. SECONDS
// without a byte are a hang. gets: only gets of short values, until the end, and then a set.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/fdbased"
	"gvisor.dev/gvisor/pkg/tcpip/network/arp"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
)

// Of values: in the middle of a segment, most of one, more than one, and many.
var sizes = []int{10, 700, 1500, 100000}

var operations, wrong, broken, hangs atomic.Uint64

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func mustNot(err tcpip.Error) {
	if err != nil {
		log.Fatal(err)
	}
}

// The interface as a file descriptor, on which whole frames come and go.
func openLink(name string) int {
	index, err := net.InterfaceByName(name)
	must(err)
	all := unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all)
	must(err)
	must(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 8<<20))
	must(unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: uint16(all), Ifindex: index.Index}))
	must(unix.SetNonblock(fd, true))
	return fd
}

func newStack(name string, address tcpip.Address) *stack.Stack {
	const nic = 1
	s := stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol, arp.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol},
	})
	sack := tcpip.TCPSACKEnabled(true)
	mustNot(s.SetTransportProtocolOption(tcp.ProtocolNumber, &sack))
	link, err := fdbased.New(&fdbased.Options{
		FDs: []int{openLink(name)}, MTU: 1500, EthernetHeader: true,
		Address: tcpip.LinkAddress("\x02\x4d\x43\x00\x09\x01"),
	})
	must(err)
	mustNot(s.CreateNIC(nic, link))
	mustNot(s.AddProtocolAddress(nic, tcpip.ProtocolAddress{
		Protocol:          ipv4.ProtocolNumber,
		AddressWithPrefix: tcpip.AddressWithPrefix{Address: address, PrefixLen: 24},
	}, stack.AddressProperties{}))
	s.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: nic}})
	return s
}

// A client is one connection, which knows the version of each of its values.
type client struct {
	conn     net.Conn
	number   int
	patience time.Duration
	versions [4]int
}

func (c *client) key(k int) string {
	return fmt.Sprintf("ns%d-%d", c.number, k)
}

func (c *client) value(k int) []byte {
	text := make([]byte, sizes[k])
	for i := range text {
		text[i] = byte((c.number*31 + k*7 + c.versions[k]*13 + i) % 251)
	}
	return text
}

// The request is answered with `want`, and not with another byte.
func (c *client) ask(request []byte, want []byte) error {
	got := make([]byte, len(want))
	sent := make(chan error, 1)
	go func() {
		_, err := c.conn.Write(request)
		sent <- err
	}()
	for at := 0; at < len(want); {
		must(c.conn.SetReadDeadline(time.Now().Add(c.patience)))
		n, err := c.conn.Read(got[at:])
		if !bytes.Equal(got[at:at+n], want[at:at+n]) {
			wrong.Add(1)
			return fmt.Errorf("connection %d: %.40q is answered with other bytes at %d of %d: "+
				"%.60q, not %.60q", c.number, request, at, len(want), got[at:at+n], want[at:])
		}
		at += n
		if err != nil {
			return fmt.Errorf("connection %d: %.40q, %d of %d bytes: %w", c.number, request, at,
				len(want), err)
		}
	}
	operations.Add(1)
	return <-sent
}

func (c *client) set(k int) error {
	c.versions[k]++
	text := c.value(k)
	return c.ask(fmt.Appendf(nil, "set %s 0 0 %d\r\n%s\r\n", c.key(k), len(text), text),
		[]byte("STORED\r\n"))
}

func (c *client) get(k int) error {
	text := c.value(k)
	return c.ask(fmt.Appendf(nil, "get %s\r\n", c.key(k)),
		fmt.Appendf(nil, "VALUE %s 0 %d\r\n%s\r\nEND\r\n", c.key(k), len(text), text))
}

// A round: each value is written now and then, and most gets are of the short ones.
func (c *client) round(i int) error {
	err := c.set(i % len(sizes))
	for j := 0; j < 12 && err == nil; j++ {
		switch {
		case j == 11:
			err = c.get(3)
		case j%4 == 3:
			err = c.get(2)
		case j%4 == 2:
			err = c.ask([]byte("get none\r\n"), []byte("END\r\n"))
		default:
			err = c.get(j % 4)
		}
	}
	return err
}

func (c *client) run(over *atomic.Bool, gets bool) {
	var err error
	for k := 0; k < len(sizes) && err == nil; k++ {
		err = c.set(k)
	}
	for i := 0; err == nil && !over.Load(); i++ {
		if gets {
			err = c.get(i % 2)
		} else {
			err = c.round(i)
		}
	}
	if err == nil && gets {
		err = c.set(0)
	}
	if err == nil {
		return
	}
	var late net.Error
	fmt.Fprintln(os.Stderr, err)
	if errors.As(err, &late) && late.Timeout() {
		hangs.Add(1)
	} else if wrong.Load() == 0 {
		broken.Add(1)
	}
}

func main() {
	gets := len(os.Args) == 8 && os.Args[7] == "gets"
	if len(os.Args) != 7 && !gets {
		log.Fatal("usage: session INTERFACE ADDRESS SERVER PORT CONNECTIONS SECONDS [gets]")
	}
	port, err := strconv.Atoi(os.Args[4])
	must(err)
	n, err := strconv.Atoi(os.Args[5])
	must(err)
	seconds, err := strconv.Atoi(os.Args[6])
	must(err)
	own := tcpip.AddrFromSlice(net.ParseIP(os.Args[2]).To4())
	far := tcpip.AddrFromSlice(net.ParseIP(os.Args[3]).To4())
	s := newStack(os.Args[1], own)
	var all sync.WaitGroup
	var over atomic.Bool
	for i := 0; i < n; i++ {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(seconds)*time.Second)
		conn, err := gonet.DialContextTCP(ctx, s, tcpip.FullAddress{Addr: far, Port: uint16(port)},
			ipv4.ProtocolNumber)
		cancel()
		must(err)
		c := client{conn: conn, number: i, patience: time.Duration(seconds) * time.Second}
		all.Add(1)
		go func() {
			defer all.Done()
			c.run(&over, gets)
		}()
	}
	io.Copy(io.Discard, os.Stdin)
	over.Store(true)
	all.Wait()
	fmt.Println("operations", operations.Load(), "wrong", wrong.Load(), "broken", broken.Load(),
		"hangs", hangs.Load())
}
