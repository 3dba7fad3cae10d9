// SPDX-License-Identifier: BSD-3-Clause

// history: groups of clients that share a few keys for some hundred operations and record the
// requests, the answers and their times. Then the history is checked, and they use new keys.
package main

import (
	"errors"
	"fmt"
	"math/rand"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
)

// The kind of a key's values decides which commands write it.
type family uint8

const (
	familyText family = iota
	familyUp
	familyDown
	families
)

const numberFlags = 7

type target struct {
	name   string
	family family
	fill   int // bytes of a piece of its values
}

type group struct {
	run     *run
	index   int
	turn    int
	rng     *rand.Rand
	clients []*client
	targets []target
	left    int64 // operations, atomic

	flushes []porcupine.Operation
}

type client struct {
	run   *run
	group *group
	id    int
	rng   *rand.Rand
	ops   []porcupine.Operation
	seen  map[int]reply // of each key, a value with its CAS id
	value map[int]uint64
	order map[int]uint16 // of each key, what was in flight with others and is known to be done

	streams [2]*stream // text, binary
	udp     *datagrams
}

// --- clients ----------------------------------------------------------------

func newClient(r *run, g *group, id int) (*client, error) {
	c := &client{run: r, group: g, id: id, rng: rand.New(rand.NewSource(r.rng.Int63()))}
	for i := range c.streams {
		if err := c.dial(i); err != nil {
			return nil, err
		}
	}
	if r.udp {
		conn, err := net.Dial("udp", r.address)
		if err != nil {
			return nil, err
		}
		c.udp = &datagrams{conn: conn, now: r.now, id: uint16(c.rng.Uint32()),
			in: make([]byte, 1<<16), apart: r.apart, repeats: r.repeats, patience: r.patience,
			halves: &r.count.halfGets}
	}
	return c, nil
}

// A connection of its own, the old one closed.
func (c *client) dial(i int) error {
	if c.streams[i] != nil {
		c.streams[i].conn.Close()
	}
	s, err := c.run.connect()
	c.streams[i] = s
	return err
}

// Asks over a connection. If that is reset, on purpose or not, the next request has a new one.
func (c *client) askStream(i int, q *request) ([]reply, error) {
	if c.aborts() {
		c.streams[i].conn.Write(q.bytes())
		c.streams[i].reset()
		return nil, c.anew(i, errLost)
	}
	out, err := c.streams[i].ask(q)
	return out, c.anew(i, err)
}

func (c *client) aborts() bool {
	return c.run.abort > 0 && c.rng.Float64() < c.run.abort
}

// Connects anew if the connection was lost; returns err, or why that failed.
func (c *client) anew(i int, err error) error {
	if !errors.Is(err, errLost) {
		return err
	}
	if errors.Is(err, errReset) {
		atomic.AddUint64(&c.run.count.resets, 1)
	}
	if failed := c.dial(i); failed != nil {
		return failed
	}
	return err
}

// The protocol and command of the next request.
type way uint8

const (
	wayStream way = iota
	wayBinary
	wayUDP
	wayUDPBinary
	ways
)

var wayNames = [ways]string{"text", "binary", "udp", "udp binary"}

func (c *client) pick(percentUDP int) way {
	binary := c.rng.Intn(100) < 25
	if c.udp != nil && c.rng.Intn(100) < percentUDP {
		if binary {
			return wayUDPBinary
		}
		return wayUDP
	}
	if binary {
		return wayBinary
	}
	return wayStream
}

func (c *client) loses() bool {
	return c.run.lose > 0 && c.rng.Float64() < c.run.lose
}

// Asks by a way; an answer that was lost is errLost. Some are lost on purpose.
func (c *client) ask(w way, q *request) ([]reply, error) {
	q.binary = w == wayBinary || w == wayUDPBinary
	switch {
	case w < wayUDP:
		return c.askStream(int(w), q)
	case c.loses():
		if c.rng.Intn(2) == 0 {
			c.udp.send(&flight{q: q})
		}
		return nil, errLost
	}
	return c.udp.ask(q)
}

func (c *client) note(in *input, out output) {
	atomic.AddUint64(&c.run.count.byKind[in.op], 1)
	if out.result == resUnknown {
		atomic.AddUint64(&c.run.count.unknown, 1)
	}
	c.ops = append(c.ops, porcupine.Operation{ClientId: c.id, Input: in, Call: in.call, Output: out,
		Return: in.ret})
}

// The value in an answer, or the error in it.
func (t *target) judge(got *reply) (uint64, error) {
	if t.family != familyText {
		if got.flags != numberFlags {
			return 0, fmt.Errorf("flags %d", got.flags)
		}
		return readNumber(got.data)
	}
	value, first, err := readText(got.data)
	if err == nil && got.flags != first&0xffff {
		err = fmt.Errorf("flags %#x of another value than %#x", got.flags, first)
	}
	return value, err
}

// --- operations -------------------------------------------------------------

// How gets are asked, how often.
var asked = []form{formGet, formGet, formGet, formGets, formMeta}

func (c *client) newGet(keys []int, w way) *request {
	q := &request{op: opGet, form: asked[c.rng.Intn(len(asked))], binary: w&1 != 0}
	if w >= wayUDP && c.rng.Intn(100) < c.run.plain {
		q.form, q.binary, q.blanks = formGet, false, c.rng.Intn(c.run.blanks+1)
	}
	if len(keys) > 1 {
		q.binary = false
	}
	if q.binary || len(keys) > 1 {
		q.form &= formGets
	}
	for _, key := range keys {
		q.keys = append(q.keys, c.group.targets[key].name)
	}
	return q
}

// One key, or sometimes two.
func (c *client) chooseKeys(w way) []int {
	n := len(c.group.targets)
	if n > 1 && c.rng.Intn(8) == 0 && !(c.run.single && w >= wayUDP) {
		return c.rng.Perm(n)[:2]
	}
	return []int{c.rng.Intn(n)}
}

func (c *client) chooseGet(w way) *flight {
	keys := c.chooseKeys(w)
	return &flight{q: c.newGet(keys, w), keys: keys}
}

func (c *client) get() error {
	w := c.pick(c.run.udpReads)
	if w >= wayUDP && c.run.window > 1 {
		return c.getMany()
	}
	f := c.chooseGet(w)
	if !f.q.binary {
		w &^= 1
	}
	f.call = c.run.now()
	f.out, f.err = c.ask(w, f.q)
	f.ret = c.run.now()
	return c.noteGet(w, f)
}

// Many datagrams at once: readers in the kernel while writers are at it.
func (c *client) getMany() error {
	var flights []*flight
	for i := 0; i < c.run.window; i++ {
		w := wayUDP
		if c.rng.Intn(4) == 0 {
			w = wayUDPBinary
		}
		flights = append(flights, c.chooseGet(w))
	}
	c.udp.askAll(flights)
	for _, f := range flights {
		if err := c.noteGet(wayUDP+way(b2i(f.q.binary)), f); err != nil {
			return err
		}
	}
	atomic.AddInt64(&c.group.left, int64(1-len(flights)))
	return nil
}

func (c *client) noteGet(w way, f *flight) error {
	q, err := f.q, f.err
	c.run.countGet(w, q)
	if errors.Is(err, errLost) {
		atomic.AddUint64(&c.run.count.lostGets, 1)
		return nil
	}
	if err != nil {
		return fmt.Errorf("get of %s by %s: %w", q.keys, wayNames[w], err)
	}
	for i, key := range f.keys {
		got := f.out[i]
		out := output{result: got.result, cas: got.cas}
		if out.result == resHit {
			out.value, err = c.group.targets[key].judge(&got)
			if err != nil {
				return fmt.Errorf("get of %s by %s: a wrong value: %w", q.keys, wayNames[w], err)
			}
			if out.cas != 0 {
				c.seen[key], c.value[key] = got, out.value
			}
		}
		via := wayNames[w&^1] + " " + formNames[w&1][q.form]
		in := &input{op: opGet, key: key, call: f.call, ret: f.ret, via: via, client: c.id}
		c.noteRow(f, in)
		c.note(in, out)
	}
	return nil
}

// What is part of a row is executed behind what came before it.
func (c *client) noteRow(f *flight, in *input) {
	if f.row {
		c.order[in.key]++
		in.order = c.order[in.key]
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

var textWrites = []kind{opSet, opSet, opSet, opSet, opAdd, opReplace, opCas, opCas, opAppend,
	opDelete, opDelete, opTouch, opGat}
var numberWrites = []kind{opIncr, opIncr, opIncr, opIncr, opSet, opAdd, opCas, opDelete, opTouch,
	opGat}

func (c *client) chooseWrite(t *target, key int) kind {
	writes := numberWrites
	if t.family == familyText {
		writes = textWrites
	}
	op := writes[c.rng.Intn(len(writes))]
	if op == opIncr && t.family == familyDown {
		op = opDecr
	}
	if _, ok := c.seen[key]; op == opCas && (!ok || (c.run.rules.lateIDs && t.family != familyText)) {
		op = opSet
	}
	return op
}

// The stored value, as bytes and as a value.
func (c *client) newValue(t *target, q *request, in *input) {
	id := atomic.AddUint32(&c.run.lastID, 1)
	in.value = uint64(id)
	if t.family == familyText {
		q.data, q.flags = piece(id, t.fill), id&0xffff
		return
	}
	in.value = numberBase + uint64(id)*numberStep + numberStep/2
	q.data, q.flags = []byte(fmt.Sprint(in.value)), numberFlags
}

func (c *client) prepare(t *target, key int, op kind) (*request, *input) {
	q := &request{op: op, keys: []string{t.name}}
	in := &input{op: op, key: key, client: c.id}
	switch op {
	case opSet, opAdd, opReplace, opCas, opAppend:
		c.newValue(t, q, in)
	case opIncr, opDecr:
		q.delta = uint64(c.rng.Intn(1000) + 1)
		in.value = q.delta
	}
	if op == opCas {
		q.cas, in.expect = c.seen[key].cas, c.value[key]
	}
	switch op {
	case opSet, opAdd, opReplace, opCas, opTouch, opGat:
		if c.rng.Intn(100) < c.run.expire {
			in.ttl = int64(c.rng.Intn(2) + 1)
		}
	}
	q.ttl = in.ttl
	switch op {
	case opSet, opAdd, opReplace, opCas, opAppend, opDelete:
		q.meta = c.rng.Intn(8) == 0
	case opGat:
		q.form = form(c.rng.Intn(2))
	}
	return q, in
}

func (c *client) chooseWriteTo(key int) *flight {
	t := &c.group.targets[key]
	q, in := c.prepare(t, key, c.chooseWrite(t, key))
	return &flight{q: q, in: in}
}

func (c *client) write(key int) error {
	f := c.chooseWriteTo(key)
	w := c.pick(c.run.udpWrites)
	if f.in.op == opAdd && w >= wayUDP && (c.run.rules.evicts || c.run.expire > 0) {
		w -= wayUDP // or the effect of a request with a lost answer would be unknown
	}
	if w == wayUDP && c.run.distinct && (f.q.meta || f.in.op == opGat) {
		w -= wayUDP
	}
	f.call = c.run.now()
	f.out, f.err = c.ask(w, f.q)
	f.ret = c.run.now()
	return c.noteWrite(w, f)
}

func (c *client) noteWrite(w way, f *flight) error {
	in, t, err := f.in, &c.group.targets[f.in.key], f.err
	in.via, in.call, in.ret = wayNames[w], f.call, f.ret
	atomic.AddUint64(&c.run.count.writes[w], 1)
	if errors.Is(err, errLost) {
		in.ret = forever
		c.note(in, output{})
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s of %s by %s: %w", kindNames[in.op], t.name, wayNames[w], err)
	}
	out := output{result: f.out[0].result, value: f.out[0].number}
	if out.result == resHit {
		if out.value, err = t.judge(&f.out[0]); err != nil {
			return fmt.Errorf("gat of %s by %s: a wrong value: %w", t.name, wayNames[w], err)
		}
		out.cas = f.out[0].cas
	}
	if f.out[0].cas != 0 {
		c.learn(in.key, in, f.out[0], &out)
	}
	c.noteRow(f, in)
	c.note(in, out)
	return nil
}

// Some answers contain the new id: those in binary, and to ms.
func (c *client) learn(key int, in *input, got reply, out *output) {
	if out.result != resStored && out.result != resNumber {
		return
	}
	out.cas = got.cas
	switch in.op {
	case opSet, opAdd, opReplace, opCas:
		c.seen[key], c.value[key] = got, in.value
	case opIncr, opDecr:
		c.seen[key], c.value[key] = got, got.number
	}
}

// Sends requests in a row and receives the answers; returns the last one's error.
func (c *client) askRow(s *stream, flights []*flight) error {
	for _, f := range flights {
		f.row, f.call = true, c.run.now()
	}
	err := s.sendAll(flights, c.rng, c.run.now)
	if err == nil && c.aborts() {
		s.reset()
		err = errLost
	}
	if err == nil {
		s.receiveAll(flights, c.run.now)
		return flights[len(flights)-1].err
	}
	for _, f := range flights {
		f.err = err
	}
	return err
}

// Some gets and writes in flight together on one connection, which the server executes in a row.
// A set without an answer is behind the last of them that has one.
func (c *client) inARow() error {
	var flights []*flight
	w := way(b2i(c.rng.Intn(100) < 25))
	for n := 2 + c.rng.Intn(6); len(flights) < n; {
		var f *flight
		last := len(flights) == n-1
		if last || c.rng.Intn(100) < c.run.reads {
			if f = c.chooseGet(w); w == wayBinary && !f.q.binary {
				continue
			}
		} else {
			f = c.chooseWriteTo(c.rng.Intn(len(c.group.targets)))
			f.q.binary = w == wayBinary
			f.q.quiet = f.in.op == opSet && !f.q.meta && !c.run.rules.evicts && c.rng.Intn(2) == 0
		}
		flights = append(flights, f)
	}
	err := c.askRow(c.streams[w], flights)
	for _, f := range flights {
		note := c.noteWrite
		if f.in == nil {
			note = c.noteGet
		}
		if err := note(w, f); err != nil {
			return err
		}
	}
	atomic.AddInt64(&c.group.left, int64(1-len(flights)))
	if err = c.anew(int(w), err); errors.Is(err, errLost) {
		return nil
	}
	return err
}

// Many sets in one piece, which the server executes in a row. Only the first client of a group
// does it, with the first key: so their order is known, and the model takes them in no other.
func (c *client) burst() error {
	t := &c.group.targets[0]
	var ops []*input
	var text []byte
	for i := 0; i < c.run.burst; i++ {
		c.order[0]++
		q, in := c.prepare(t, 0, opSet)
		q.meta = false
		in.via, in.order = wayNames[wayStream], c.order[0]
		ops = append(ops, in)
		text = append(text, q.text()...)
	}
	s := c.streams[0]
	call := c.run.now()
	if _, err := s.conn.Write(text); err != nil {
		return err
	}
	for _, in := range ops {
		got, err := (&request{op: opSet}).read(s.in)
		if err != nil {
			return fmt.Errorf("sets of %s in a burst: %w", t.name, err)
		}
		in.call, in.ret = call, c.run.now()
		c.note(in, output{result: got[0].result})
	}
	atomic.AddUint64(&c.run.count.writes[wayStream], uint64(len(ops)))
	atomic.AddInt64(&c.group.left, int64(1-len(ops)))
	return nil
}

// Keys are left alone most of the time, so that they expire; one write of five hundred then
// finds them expired.
func (c *client) lull() bool {
	period := int64(c.run.lullPeriod)
	if period == 0 || c.run.now()%period < period/10 {
		return false
	}
	time.Sleep(time.Duration(c.rng.Intn(8)) * time.Millisecond)
	return c.rng.Intn(500) > 0
}

func (c *client) step() error {
	if c.run.redial > 0 && c.rng.Float64() < c.run.redial {
		for i := range c.streams {
			if err := c.dial(i); err != nil {
				return err
			}
		}
	}
	if c.run.burst > 0 && c.id == 0 {
		return c.burst()
	}
	if c.rng.Intn(100) < c.run.rows {
		return c.inARow()
	}
	if c.rng.Intn(100) < c.run.reads || c.lull() {
		return c.get()
	}
	return c.write(c.rng.Intn(len(c.group.targets)))
}

// --- groups -----------------------------------------------------------------

func newGroup(r *run, index int) (*group, error) {
	g := &group{run: r, index: index, rng: rand.New(rand.NewSource(r.rng.Int63()))}
	for i := 0; i < r.nclients; i++ {
		c, err := newClient(r, g, i)
		if err != nil {
			return nil, err
		}
		g.clients = append(g.clients, c)
	}
	return g, nil
}

var fills = []int{0, 8, 40, 40, 200, 600, 1250}

func (g *group) newTargets() {
	g.turn++
	g.targets = nil
	for i := 0; i < g.run.nkeys; i++ {
		name := fmt.Sprintf("%s.%d.%d.%d.", g.run.prefix, g.index, g.turn, i)
		room := 40
		if g.rng.Intn(20) == 0 {
			room = 250 - len(name)
		}
		for n := g.rng.Intn(room); n > 0; n-- {
			name += string(rune('a' + n%26))
		}
		t := target{name: name, fill: fills[g.rng.Intn(len(fills))]}
		if g.rng.Intn(100) < 30 {
			t.family = familyUp + family(g.rng.Intn(2))
		}
		g.targets = append(g.targets, t)
	}
}

// One history: all clients at once, until its operations are used up.
func (g *group) play() error {
	var wg sync.WaitGroup
	errs := make(chan error, len(g.clients))
	atomic.StoreInt64(&g.left, int64(g.run.nops))
	for _, c := range g.clients {
		wg.Add(1)
		go func(c *client) {
			defer wg.Done()
			for atomic.AddInt64(&g.left, -1) >= 0 && !g.run.over() {
				if err := c.step(); err != nil {
					errs <- err
					atomic.StoreInt64(&g.left, 0)
					return
				}
			}
		}(c)
	}
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

// The records of all clients, and of flush_all for each key.
func (g *group) collect() []porcupine.Operation {
	var all []porcupine.Operation
	for _, c := range g.clients {
		all = append(all, c.ops...)
		c.ops, c.order = nil, map[int]uint16{}
		c.seen, c.value = map[int]reply{}, map[int]uint64{}
	}
	for _, flush := range g.flushes {
		for key := range g.targets {
			in := *flush.Input.(*input)
			in.key = key
			flush.Input = &in
			all = append(all, flush)
		}
	}
	g.flushes = nil
	return all
}

func (g *group) turnOver() {
	g.run.rotation.Lock()
	defer g.run.rotation.Unlock()
	g.newTargets()
}

// Removes its items, so that later histories have memory.
func (g *group) cleanUp(targets []target) error {
	for i := range targets {
		q := &request{op: opDelete, keys: []string{targets[i].name}}
		if _, err := g.clients[0].ask(wayStream, q); err != nil && !errors.Is(err, errLost) {
			return err
		}
	}
	return nil
}

// Between two histories: within one, all may overlap.
func (g *group) rest() {
	for g.run.rate > 0 && !g.run.over() &&
		float64(g.run.total()) > float64(g.run.rate)*time.Since(g.run.start).Seconds() {
		time.Sleep(10 * time.Millisecond)
	}
}

func (g *group) loop(histories chan<- history) {
	for !g.run.over() {
		g.turnOver()
		err := g.play()
		g.run.rotation.Lock()
		ops, targets := g.collect(), g.targets
		g.targets = nil
		g.run.rotation.Unlock()
		histories <- history{ops, targets, err}
		if err != nil {
			return
		}
		if err = g.cleanUp(targets); err != nil {
			g.run.fail(err)
		}
		g.rest()
	}
}

// --- checking ---------------------------------------------------------------

type history struct {
	ops     []porcupine.Operation
	targets []target
	err     error
}

const checkTime = time.Minute

func (r *run) check(histories <-chan history) {
	for h := range histories {
		model := r.rules.model(h.ops)
		if h.err != nil {
			r.report(model, h, h.err.Error())
			continue
		}
		switch porcupine.CheckOperationsTimeout(model, h.ops, checkTime) {
		case porcupine.Ok:
			atomic.AddUint64(&r.count.checked, uint64(len(h.ops)))
			atomic.AddUint64(&r.count.histories, 1)
		case porcupine.Illegal:
			r.report(model, h, "a history is not linearizable")
		case porcupine.Unknown:
			r.report(model, h, "a history could not be judged in "+checkTime.String())
		}
	}
}
