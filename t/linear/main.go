// SPDX-License-Identifier: BSD-3-Clause

// linear: whether memcached is linearizable, key by key, as an independent checker judges it.
//
//	linear -address HOST:PORT [-udp] [-seconds N] ...
//	linear -unix PATH ...
//
// Prints what it counted as lines of a name and a number, and ends with 1 if a history is wrong;
// that history is then in the folder of -out, as text and as a page that shows it.
package main

import (
	"flag"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
)

type counts struct {
	byKind         [kinds]uint64
	gets           [ways][forms]uint64 // keys
	asked          [ways]uint64        // requests
	writes         [ways]uint64
	resets         uint64 // of connections, not on purpose
	unknown        uint64
	lostGets       uint64
	halfGets       uint64 // among them
	checked        uint64
	histories      uint64
	churned, grown uint64
	wrong          uint64
}

type run struct {
	address, unix, out  string
	udp                 bool
	seed                int64
	seconds, nops, rate int
	wanted              uint64
	ngroups, nclients   int
	nkeys, reads        int
	udpReads, udpWrites int
	distinct            bool
	window, burst       int
	plain, blanks       int
	lose, redial, abort float64
	rows                int
	repeats             bool
	patience            time.Duration
	expire              int
	churnRate, fillers  int
	growTo, growRate    int
	moves, crawls       bool
	flushPeriod         time.Duration
	lullPeriod          time.Duration
	rules               rules
	kernel              bool
	apart, single       bool

	prefix   string
	start    time.Time
	rng      *rand.Rand
	lastID   uint32
	groups   []*group
	rotation sync.Mutex // no history begins or ends while flush_all is under way
	stress   sync.WaitGroup
	stopped  uint32
	count    counts
	reports  sync.Mutex
}

func (r *run) now() int64 {
	return int64(time.Since(r.start))
}

func (r *run) total() uint64 {
	var sum uint64
	for i := range r.count.byKind {
		sum += atomic.LoadUint64(&r.count.byKind[i])
	}
	return sum
}

func (r *run) over() bool {
	return atomic.LoadUint32(&r.stopped) != 0 ||
		time.Since(r.start) > time.Duration(r.seconds)*time.Second ||
		(r.wanted > 0 && r.total() >= r.wanted)
}

func (r *run) fail(err error) {
	atomic.AddUint64(&r.count.wrong, 1)
	atomic.StoreUint32(&r.stopped, 1)
	fmt.Fprintln(os.Stderr, "linear:", err)
}

func (r *run) connect() (*stream, error) {
	if r.unix != "" {
		return dial("unix", r.unix)
	}
	return dial("tcp", r.address)
}

func (r *run) countGet(w way, q *request) {
	atomic.AddUint64(&r.count.gets[w][q.form], uint64(len(q.keys)))
	atomic.AddUint64(&r.count.asked[w], 1)
}

// What a key's history is known to be at a time: of a write that has no answer yet only that it was
// sent.
func until(ops []porcupine.Operation, when int64) []porcupine.Operation {
	var known []porcupine.Operation
	for _, op := range ops {
		in := *op.Input.(*input)
		switch {
		case op.Return <= when:
			known = append(known, op)
		case op.Call <= when && in.op != opGet:
			in.ret = forever
			op.Input, op.Output, op.Return = &in, output{}, forever
			known = append(known, op)
		}
	}
	return known
}

// Prints the first answer of one key's history that no order explains, and what came before.
func (r *run) showFirst(ops []porcupine.Operation) {
	const rows = 24
	sort.Slice(ops, func(i, j int) bool { return ops[i].Return < ops[j].Return })
	at := sort.Search(len(ops), func(i int) bool {
		part := until(ops, ops[i].Return)
		return porcupine.CheckOperationsTimeout(r.rules.model(part), part, checkTime) != porcupine.Ok
	})
	if at == len(ops) {
		return
	}
	from := at - rows
	if from < 0 {
		from = 0
	}
	fmt.Fprintf(os.Stderr, "linear: client, sent, answered in us, up to the first that is wrong:\n")
	for _, op := range ops[from : at+1] {
		fmt.Fprintf(os.Stderr, "linear: %2d %9d %9d %s\n", op.ClientId, op.Call/1000, op.Return/1000,
			describe(op.Input.(*input), op.Output.(output)))
	}
}

// Writes a wrong history down, as text and as a page.
func (r *run) report(model porcupine.Model, h history, what string) {
	r.reports.Lock()
	defer r.reports.Unlock()
	r.fail(fmt.Errorf("%s after %.1f s, seed %d", what, time.Since(r.start).Seconds(), r.seed))
	if r.count.wrong > 3 {
		return
	}
	base := filepath.Join(r.out, fmt.Sprintf("linear-%d-%d", r.seed, r.count.wrong))
	text, err := os.Create(base + ".txt")
	if err != nil {
		fmt.Fprintln(os.Stderr, "linear:", err)
		return
	}
	defer text.Close()
	fmt.Fprintf(text, "%s\n", what)
	shown := 0
	for key, part := range byKey(h.ops) {
		if porcupine.CheckOperationsTimeout(model, part, checkTime) == porcupine.Ok {
			continue
		}
		fmt.Fprintf(text, "key %d: %s\n", key, h.targets[key].name)
		sort.Slice(part, func(i, j int) bool { return part[i].Call < part[j].Call })
		for _, op := range part {
			fmt.Fprintf(text, "%2d %12d %12d %s\n", op.ClientId, op.Call, op.Return,
				describe(op.Input.(*input), op.Output.(output)))
		}
		if shown++; shown == 1 && r.count.wrong == 1 {
			r.showFirst(part)
		}
		_, info := porcupine.CheckOperationsVerbose(model, part, checkTime)
		page := fmt.Sprintf("%s-key%d.html", base, key)
		if err := porcupine.VisualizePath(model, info, page); err != nil {
			fmt.Fprintln(os.Stderr, "linear:", err)
		}
	}
	fmt.Fprintf(os.Stderr, "linear: see %s.txt\n", base)
}

// Rows of `stats WHICH` that are numbers.
func (r *run) stats(which string) (map[string]uint64, error) {
	s, err := r.connect()
	if err != nil {
		return nil, err
	}
	defer s.conn.Close()
	rows, err := s.command(strings.TrimSpace("stats "+which), true)
	out := map[string]uint64{}
	for _, row := range rows {
		words := strings.Split(row, " ")
		if n, err := strconv.ParseUint(words[len(words)-1], 10, 64); err == nil && len(words) == 3 {
			out[words[1]] = n
		}
	}
	return out, err
}

func (r *run) parse() {
	flag.StringVar(&r.address, "address", "", "`HOST:PORT` of the server")
	flag.StringVar(&r.unix, "unix", "", "its `path` instead")
	flag.StringVar(&r.out, "out", ".", "`folder` for histories that are wrong")
	flag.BoolVar(&r.udp, "udp", false, "ask over UDP too")
	flag.BoolVar(&r.apart, "apart", false, "over UDP each key of a get has a reply of its own")
	flag.BoolVar(&r.single, "single", false, "ask for one key at a time over UDP")
	flag.BoolVar(&r.kernel, "kernel", true, "the server knows what the kernel answered")
	flag.Int64Var(&r.seed, "seed", time.Now().UnixNano()%1e9, "of what is random")
	flag.IntVar(&r.seconds, "seconds", 10, "how long")
	flag.Uint64Var(&r.wanted, "operations", 0, "end after so many, 0: by time alone")
	flag.IntVar(&r.rate, "rate", 0, "operations a second, on the average, 0: what is possible")
	flag.IntVar(&r.nops, "history", 1500, "operations in one history")
	flag.IntVar(&r.ngroups, "groups", 2, "histories at a time")
	flag.IntVar(&r.nclients, "clients", 8, "of one history")
	flag.IntVar(&r.nkeys, "keys", 3, "of one history")
	flag.IntVar(&r.reads, "reads", 60, "percent of the operations")
	flag.IntVar(&r.udpReads, "udp-reads", 75, "percent of the reads")
	flag.IntVar(&r.udpWrites, "udp-writes", 20, "percent of the writes")
	flag.BoolVar(&r.distinct, "distinct", false, "over UDP no text write that is answered like a read")
	flag.IntVar(&r.plain, "plain", 0, "percent of the gets over UDP that are a text get in any case")
	flag.IntVar(&r.blanks, "blanks", 0, "at most so many behind the keys of those")
	flag.IntVar(&r.rows, "rows", 0, "percent of the steps with several requests in flight on a stream")
	flag.Float64Var(&r.abort, "abort", 0, "part of those over a stream whose answer a RST precedes")
	flag.DurationVar(&r.patience, "patience", time.Second, "how long to wait for a datagram")
	flag.BoolVar(&r.repeats, "repeats", false, "the network repeats datagrams")
	flag.Float64Var(&r.redial, "redial", 0, "part of the operations before which a client connects anew")
	flag.IntVar(&r.window, "window", 1, "datagrams of one client in flight")
	flag.IntVar(&r.burst, "burst", 0, "sets that the first client sends at once")
	flag.Float64Var(&r.lose, "lose", 0.005, "part of the datagrams that is lost on purpose")
	fill := flag.Int("fill", -1, "bytes in all values, -1: of many sizes")
	flag.IntVar(&r.expire, "expire", 0, "percent of the writes that expire in 1 or 2 s")
	flag.DurationVar(&r.lullPeriod, "lull", 0, "after a tenth of it nearly no writes for the rest")
	flag.BoolVar(&r.rules.evicts, "evicts", false, "memory is short: any item may go at any time")
	flag.BoolVar(&r.rules.lateIDs, "late-ids", false,
		"a get beside an incr or decr may have the old value with the new CAS id")
	flag.IntVar(&r.churnRate, "churn", 0, "writes a second to other keys")
	flag.IntVar(&r.fillers, "fillers", 20000, "how many other keys")
	flag.IntVar(&r.growTo, "grow", 0, "how many new keys to store beside")
	flag.IntVar(&r.growRate, "grow-rate", 20000, "of them a second")
	flag.BoolVar(&r.moves, "moves", false, "move slab pages")
	flag.BoolVar(&r.crawls, "crawls", false, "run the crawler")
	flag.DurationVar(&r.flushPeriod, "flush", 0, "time between two flush_all")
	slack := flag.Duration("slack", 150*time.Millisecond, "how far clocks may be apart")
	flag.Parse()
	if r.nclients > maxClients {
		r.nclients = maxClients
	}
	r.rules.slack = int64(*slack)
	if *fill >= 0 {
		fills = []int{*fill}
	}
	r.rng = rand.New(rand.NewSource(r.seed))
	r.prefix = fmt.Sprintf("l%x", r.seed)
}

func (r *run) prepare() error {
	if r.moves {
		if err := r.makeRoom(); err != nil {
			return err
		}
	}
	if r.rules.evicts && r.churnRate > 0 {
		return r.fill()
	}
	return nil
}

func (r *run) play() error {
	if err := r.prepare(); err != nil {
		return err
	}
	for i := 0; i < r.ngroups; i++ {
		g, err := newGroup(r, i)
		if err != nil {
			return err
		}
		g.collect()
		r.groups = append(r.groups, g)
	}
	r.start = time.Now()
	if err := r.startStress(); err != nil {
		return err
	}
	histories := make(chan history, 2)
	var playing, checking sync.WaitGroup
	for _, g := range r.groups {
		playing.Add(1)
		go func(g *group) {
			defer playing.Done()
			g.loop(histories)
		}(g)
	}
	checking.Add(1)
	go func() {
		defer checking.Done()
		r.check(histories)
	}()
	playing.Wait()
	r.stress.Wait()
	close(histories)
	checking.Wait()
	return nil
}

func (r *run) print(before, after map[string]uint64, kernel bool) {
	fmt.Printf("seed %d\nseconds %.1f\noperations %d\nchecked %d\nhistories %d\nwrong %d\n",
		r.seed, time.Since(r.start).Seconds(), r.total(), r.count.checked, r.count.histories,
		r.count.wrong)
	for i, name := range kindNames {
		fmt.Printf("op_%s %d\n", name, r.count.byKind[i])
	}
	for w, name := range wayNames {
		name = strings.ReplaceAll(name, " ", "_")
		fmt.Printf("writes_%s %d\ngets_%s %d\n", name, r.count.writes[w], name, r.count.asked[w])
		for f := range r.count.gets[w][:int(forms)-w&1] {
			fmt.Printf("keys_%s_%s %d\n", name, formNames[w&1][f], r.count.gets[w][f])
		}
	}
	fmt.Printf("unknown %d\nlost_gets %d\nhalf_gets %d\nresets %d\nchurned %d\ngrown %d\n",
		r.count.unknown, r.count.lostGets, r.count.halfGets, r.count.resets, r.count.churned, r.count.grown)
	if !kernel {
		return
	}
	var names []string
	for name := range after {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Printf("kernel_%s %d\n", name, after[name]-before[name])
	}
}

func main() {
	r := &run{}
	r.parse()
	var before, after map[string]uint64
	var err error
	if r.kernel {
		before, err = r.stats("bmc")
	}
	if err == nil {
		err = r.play()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "linear:", err)
		os.Exit(2)
	}
	if r.kernel {
		after, err = r.stats("bmc")
	}
	r.print(before, after, err == nil && r.udp)
	if r.count.wrong > 0 || err != nil {
		os.Exit(1)
	}
}
