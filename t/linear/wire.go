// SPDX-License-Identifier: BSD-3-Clause

// wire: requests in the text, meta and binary protocols, over streams and datagrams.
package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// The form of a get.
type form uint8

const (
	formGet  form = iota // text get, or binary GET
	formGets             // text gets, or binary GETK
	formMeta             // mg
	forms
)

var formNames = [2][forms]string{{"get", "gets", "mg"}, {"get", "getk", "no mg"}}

type request struct {
	op     kind
	form   form
	binary bool
	keys   []string // more than one for text gets alone
	data   []byte
	flags  uint32
	ttl    int64
	cas    uint64
	delta  uint64
	blanks int  // behind the keys of a text get
	meta   bool // ms and md in place of the classic commands
	quiet  bool // a set without an answer
}

// One answer, or of a get one for each key, before its value is looked at.
type reply struct {
	result result
	data   []byte
	flags  uint32
	number uint64
	cas    uint64
}

var errLost = errors.New("no answer")
var errReset = fmt.Errorf("a reset: %w", errLost)

// --- requests ---------------------------------------------------------------

var metaModes = map[kind]string{opAdd: " ME", opReplace: " MR", opAppend: " MA"}

func (q *request) metaText() []byte {
	if q.op == opDelete {
		return []byte("md " + q.keys[0] + "\r\n")
	}
	head := fmt.Sprintf("ms %s %d c%s", q.keys[0], len(q.data), metaModes[q.op])
	if q.op != opAppend {
		head += fmt.Sprintf(" F%d T%d", q.flags, q.ttl)
	}
	if q.op == opCas {
		head += fmt.Sprintf(" C%d", q.cas)
	}
	return []byte(head + "\r\n" + string(q.data) + "\r\n")
}

func (q *request) text() []byte {
	key := q.keys[0]
	if q.meta {
		return q.metaText()
	}
	switch q.op {
	case opGet:
		switch q.form {
		case formMeta:
			return []byte("mg " + key + " f c v k\r\n")
		case formGets:
			return []byte("gets " + strings.Join(q.keys, " ") + "\r\n")
		}
		return []byte("get " + strings.Join(q.keys, " ") + strings.Repeat(" ", q.blanks) + "\r\n")
	case opGat:
		return []byte(fmt.Sprintf("%s %d %s\r\n", [2]string{"gat", "gats"}[q.form], q.ttl, key))
	case opDelete:
		return []byte("delete " + key + "\r\n")
	case opIncr, opDecr:
		return []byte(fmt.Sprintf("%s %s %d\r\n", kindNames[q.op], key, q.delta))
	case opTouch:
		return []byte(fmt.Sprintf("touch %s %d\r\n", key, q.ttl))
	case opFlush:
		return []byte("flush_all\r\n")
	}
	head := fmt.Sprintf("%s %s %d %d %d", kindNames[q.op], key, q.flags, q.ttl, len(q.data))
	if q.op == opCas {
		head += fmt.Sprintf(" %d", q.cas)
	}
	if q.quiet {
		head += " noreply"
	}
	return []byte(head + "\r\n" + string(q.data) + "\r\n")
}

var opcodes = map[kind]byte{opSet: 1, opAdd: 2, opReplace: 3, opCas: 1, opDelete: 4, opIncr: 5,
	opDecr: 6, opFlush: 8, opAppend: 0xe, opTouch: 0x1c}

func (q *request) packet() []byte {
	var extras []byte
	opcode, key := opcodes[q.op], q.keys[0]
	switch q.op {
	case opGet:
		opcode = map[form]byte{formGet: 0, formGets: 0xc}[q.form]
	case opGat:
		opcode = map[form]byte{formGet: 0x1d, formGets: 0x23}[q.form]
		extras = binary.BigEndian.AppendUint32(nil, uint32(q.ttl))
	case opSet, opAdd, opReplace, opCas:
		extras = binary.BigEndian.AppendUint32(nil, q.flags)
		extras = binary.BigEndian.AppendUint32(extras, uint32(q.ttl))
	case opIncr, opDecr:
		extras = binary.BigEndian.AppendUint64(nil, q.delta)
		extras = binary.BigEndian.AppendUint64(extras, 0)
		extras = binary.BigEndian.AppendUint32(extras, 0xffffffff) // if there is none: NOT_FOUND
	case opTouch:
		extras = binary.BigEndian.AppendUint32(nil, uint32(q.ttl))
	case opFlush:
		key = ""
	}
	if q.quiet {
		opcode = 0x11
	}
	out := make([]byte, 24, 24+len(extras)+len(key)+len(q.data))
	out[0], out[1] = 0x80, opcode
	binary.BigEndian.PutUint16(out[2:], uint16(len(key)))
	out[4] = byte(len(extras))
	binary.BigEndian.PutUint32(out[8:], uint32(len(extras)+len(key)+len(q.data)))
	binary.BigEndian.PutUint64(out[16:], q.cas)
	out = append(out, extras...)
	out = append(out, key...)
	return append(out, q.data...)
}

func (q *request) bytes() []byte {
	if q.binary {
		return q.packet()
	}
	return q.text()
}

// --- answers ----------------------------------------------------------------

func line(r *bufio.Reader) (string, error) {
	text, err := r.ReadString('\n')
	if err == nil && !strings.HasSuffix(text, "\r\n") {
		err = fmt.Errorf("an odd line %q", text)
	}
	return strings.TrimSuffix(text, "\r\n"), err
}

func block(r *bufio.Reader, n int) ([]byte, error) {
	data := make([]byte, n+2)
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, err
	}
	if data[n] != '\r' || data[n+1] != '\n' {
		return nil, fmt.Errorf("a value of %d bytes without its end: %q", n, data[n:])
	}
	return data[:n], nil
}

// The numbers in words, which may have a letter before each.
func numbers(words []string) ([]uint64, error) {
	var out []uint64
	for _, word := range words {
		n, err := strconv.ParseUint(strings.TrimLeft(word, "fc"), 10, 64)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}

func (q *request) readValues(r *bufio.Reader) ([]reply, error) {
	out := make([]reply, len(q.keys))
	for i := range out {
		out[i].result = resAbsent
	}
	for at := 0; ; at++ {
		head, err := line(r)
		if err != nil || head == "END" {
			return out, err
		}
		words := strings.Split(head, " ")
		if len(words) < 4 || words[0] != "VALUE" {
			return nil, fmt.Errorf("an odd answer to get: %q", head)
		}
		for at < len(q.keys) && q.keys[at] != words[1] {
			at++
		}
		n, err := numbers(words[2:])
		if err != nil || at == len(q.keys) || (len(n) == 3) != (q.form == formGets) {
			return nil, fmt.Errorf("an odd answer to get %s: %q", q.keys, head)
		}
		out[at] = reply{result: resHit, flags: uint32(n[0])}
		if len(n) == 3 {
			out[at].cas = n[2]
		}
		if out[at].data, err = block(r, int(n[1])); err != nil {
			return nil, err
		}
	}
}

func (q *request) readMeta(r *bufio.Reader) ([]reply, error) {
	head, err := line(r)
	if err != nil || head == "EN" || head == "EN k"+q.keys[0] {
		return []reply{{result: resAbsent}}, err
	}
	words := strings.Split(head, " ")
	if len(words) != 5 || words[0] != "VA" || words[4] != "k"+q.keys[0] {
		return nil, fmt.Errorf("an odd answer to mg %s: %q", q.keys, head)
	}
	n, err := numbers(words[1:4])
	if err != nil {
		return nil, fmt.Errorf("an odd answer to mg %s: %q", q.keys, head)
	}
	data, err := block(r, int(n[0]))
	return []reply{{result: resHit, data: data, flags: uint32(n[1]), cas: n[2]}}, err
}

var textResults = map[string]result{
	"STORED": resStored, "EXISTS": resExists, "NOT_FOUND": resAbsent, "DELETED": resDone,
	"TOUCHED": resDone, "OK": resDone,
}

// The answer to ms or md.
func (q *request) readMetaWrite(text string) ([]reply, error) {
	words := strings.Split(text, " ")
	switch {
	case text == "HD" && q.op == opDelete:
		return []reply{{result: resDone}}, nil
	case words[0] == "NF":
		return []reply{{result: resAbsent}}, nil
	case words[0] == "EX":
		return []reply{{result: resExists}}, nil
	case words[0] == "NS":
		return []reply{{result: q.notStored()}}, nil
	}
	n, err := numbers(words[1:])
	if err != nil || len(n) != 1 || words[0] != "HD" {
		return nil, fmt.Errorf("an odd answer to a meta %s: %q", kindNames[q.op], text)
	}
	return []reply{{result: resStored, cas: n[0]}}, nil
}

func (q *request) readText(r *bufio.Reader) ([]reply, error) {
	if q.op == opGat {
		return q.readValues(r)
	}
	if q.op == opGet {
		if q.form == formMeta {
			return q.readMeta(r)
		}
		return q.readValues(r)
	}
	text, err := line(r)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(text, "SERVER_ERROR out of memory") {
		return []reply{{result: resFailed}}, nil
	}
	if q.meta {
		return q.readMetaWrite(text)
	}
	if found, ok := textResults[text]; ok {
		return []reply{{result: found}}, nil
	}
	if text == "NOT_STORED" {
		return []reply{{result: q.notStored()}}, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || (q.op != opIncr && q.op != opDecr) {
		return nil, fmt.Errorf("an odd answer to %s: %q", kindNames[q.op], text)
	}
	return []reply{{result: resNumber, number: n}}, nil
}

func (q *request) notStored() result {
	if q.op == opAdd {
		return resRefused
	}
	return resAbsent
}

// The meaning of a status of the binary protocol.
func (q *request) judge(status uint16) (result, error) {
	switch {
	case status == 0 && (q.op == opGet || q.op == opGat):
		return resHit, nil
	case status == 0 && (q.op == opIncr || q.op == opDecr):
		return resNumber, nil
	case status == 0 && (q.op == opDelete || q.op == opTouch || q.op == opFlush):
		return resDone, nil
	case status == 0:
		return resStored, nil
	case status == 1:
		return resAbsent, nil
	case status == 2 && q.op == opAdd:
		return resRefused, nil
	case status == 2:
		return resExists, nil
	case status == 5:
		return q.notStored(), nil
	case status == 0x82:
		return resFailed, nil
	}
	return resUnknown, fmt.Errorf("status %#x of %s", status, kindNames[q.op])
}

func (q *request) readPacket(r *bufio.Reader) ([]reply, error) {
	var head [24]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(head[8:]))
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, err
	}
	found, err := q.judge(binary.BigEndian.Uint16(head[6:]))
	if err != nil || head[0] != 0x81 {
		return nil, fmt.Errorf("an odd answer % x: %v", head, err)
	}
	out := reply{result: found, cas: binary.BigEndian.Uint64(head[16:])}
	nextras, nkey := int(head[4]), int(binary.BigEndian.Uint16(head[2:]))
	if found == resHit {
		if nextras != 4 || (nkey != 0 && string(body[4:4+nkey]) != q.keys[0]) ||
			(nkey != 0) != (q.form == formGets) {
			return nil, fmt.Errorf("an odd answer % x %.40q to a get of %s", head, body, q.keys)
		}
		out.flags = binary.BigEndian.Uint32(body)
		out.data = body[4+nkey:]
	}
	if found == resNumber {
		out.number = binary.BigEndian.Uint64(body)
	}
	return []reply{out}, nil
}

func (q *request) read(r *bufio.Reader) ([]reply, error) {
	if q.binary {
		return q.readPacket(r)
	}
	return q.readText(r)
}

// --- streams ----------------------------------------------------------------

type stream struct {
	conn net.Conn
	in   *bufio.Reader
}

func dial(network, address string) (*stream, error) {
	conn, err := net.Dial(network, address)
	if err != nil {
		return nil, err
	}
	return &stream{conn, bufio.NewReaderSize(conn, 1<<16)}, nil
}

func (s *stream) ask(q *request) ([]reply, error) {
	s.conn.SetDeadline(time.Now().Add(silence))
	if _, err := s.conn.Write(q.bytes()); err != nil {
		return nil, lost(err)
	}
	out, err := q.read(s.in)
	return out, lost(err)
}

// Whether a request was executed whose connection was reset is not known.
func lost(err error) error {
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return errReset
	}
	return err
}

// Ends a connection by a RST.
func (s *stream) reset() {
	if tcp, ok := s.conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	s.conn.Close()
}

// Waits without sleeping, which would take too long, up to so many microseconds.
func spin(rng *rand.Rand, most int) {
	wait := time.Duration(rng.Intn(most)) * time.Microsecond
	for begin := time.Now(); time.Since(begin) < wait; {
	}
}

// How a pipeline's requests are cut into segments.
const (
	cutNowhere = iota
	cutBetween
	cutAnywhere
	cuts
)

// Sends requests in a row without waiting for answers.
func (s *stream) sendAll(flights []*flight, rng *rand.Rand, now func() int64) error {
	var text []byte
	how := rng.Intn(cuts)
	s.conn.SetDeadline(time.Now().Add(silence))
	for _, f := range flights {
		f.call = now()
		if how == cutBetween {
			if _, err := s.conn.Write(f.q.bytes()); err != nil {
				return lost(err)
			}
			spin(rng, 1+rng.Intn(50))
			continue
		}
		f.call = flights[0].call
		text = append(text, f.q.bytes()...)
	}
	if how == cutAnywhere {
		at := rng.Intn(len(text))
		if _, err := s.conn.Write(text[:at]); err != nil {
			return lost(err)
		}
		spin(rng, 50)
		text = text[at:]
	}
	if len(text) == 0 {
		return nil
	}
	_, err := s.conn.Write(text)
	return lost(err)
}

// Receives the answers, in the order of the requests. A request without one was executed before
// the next that has one.
func (s *stream) receiveAll(flights []*flight, now func() int64) {
	var err error
	for i, f := range flights {
		if f.q.quiet {
			continue
		}
		if err == nil {
			f.out, err = f.q.read(s.in)
		}
		f.ret, f.err = now(), lost(err)
		for ; i > 0 && flights[i-1].q.quiet; i-- {
			flights[i-1].out = []reply{{result: resStored}}
			flights[i-1].ret, flights[i-1].err = f.ret, f.err
		}
	}
}

// A text command whose answer is one line, or lines up to END.
func (s *stream) command(text string, lines bool) ([]string, error) {
	if _, err := s.conn.Write([]byte(text + "\r\n")); err != nil {
		return nil, err
	}
	var out []string
	for {
		one, err := line(s.in)
		if err != nil || (lines && one == "END") {
			return out, err
		}
		out = append(out, one)
		if !lines {
			return out, nil
		}
	}
}

// --- datagrams --------------------------------------------------------------

const (
	frameBytes = 8
	silence    = 60 * time.Second // of a stream, which is an error
)

type datagrams struct {
	conn  net.Conn
	now   func() int64
	id    uint16
	in    []byte
	apart bool // memcached 1.6: a reply of its own for each key, and an empty one for a miss
	// The network repeats requests: of several replies to one their parts cannot be told apart.
	repeats  bool
	patience time.Duration
	halves   *uint64 // counts answers to several keys of which some were lost
}

// A request that was sent, and its replies.
type flight struct {
	q         *request
	keys      []int  // of a get
	in        *input // of a write
	row       bool   // it is in flight together with others, on a connection
	call, ret int64
	before    []byte // replies to the first keys of several
	nbefore   int    // how many, with those of keys without an item
	parts     [][]byte
	left      int // parts; -1: none came yet
	out       []reply
	err       error
}

func (d *datagrams) send(f *flight) error {
	d.id++
	frame := []byte{byte(d.id >> 8), byte(d.id), 0, 0, 0, 1, 0, 0}
	datagram := append(frame, f.q.bytes()...)
	f.left, f.err = -1, errLost
	f.call = d.now()
	_, err := d.conn.Write(datagram)
	return err
}

// Assigns a datagram to its request. True: the answer is complete.
func (f *flight) take(datagram []byte) (bool, error) {
	at := int(binary.BigEndian.Uint16(datagram[2:]))
	count := int(binary.BigEndian.Uint16(datagram[4:]))
	if f.left < 0 {
		f.parts, f.left = make([][]byte, count), count
	}
	if at >= len(f.parts) || count != len(f.parts) || f.parts[at] != nil {
		return false, fmt.Errorf("an odd datagram: % x", datagram[:frameBytes])
	}
	f.parts[at] = append([]byte{}, datagram[frameBytes:]...)
	f.left--
	return f.left == 0, nil
}

// Whether the complete reply is the request's last.
func (f *flight) ended() bool {
	data := bytes.Join(f.parts, nil)
	if len(f.q.keys) == 1 || bytes.HasSuffix(data, []byte("END\r\n")) {
		return true
	}
	f.before = append(f.before, data...)
	f.parts, f.left = nil, -1
	f.nbefore++
	return false
}

// Whether a part of a reply was lost, so that this one may be another reply's: they come in order.
func (f *flight) lacksPart(datagram []byte) bool {
	at := int(binary.BigEndian.Uint16(datagram[2:]))
	count := int(binary.BigEndian.Uint16(datagram[4:]))
	if f.left < 0 {
		return at != 0
	}
	return at != len(f.parts)-f.left || count != len(f.parts)
}

// Whether an earlier reply of several was lost, which would look like a miss: neither has each key
// had one, nor is there one with all values, as the kernel gives.
func (f *flight) lacksReply() bool {
	if f.nbefore == len(f.q.keys)-1 {
		return false
	}
	for _, got := range f.out {
		if got.result != resHit {
			return true
		}
	}
	return f.nbefore > 0
}

func (f *flight) finish() {
	data := append(f.before, bytes.Join(f.parts, nil)...)
	rest := bytes.NewReader(data)
	r := bufio.NewReader(rest)
	f.out, f.err = f.q.read(r)
	if left := rest.Len() + r.Buffered(); f.err == nil && left > 0 {
		f.err = fmt.Errorf("%d bytes behind an answer", left)
	}
	if f.err != nil {
		f.err = fmt.Errorf("%v in %.200q", f.err, data)
	}
}

// Sends all, then receives the replies; discards older ones. A missing answer
// leaves errLost.
func (d *datagrams) askAll(flights []*flight) {
	waiting := map[uint16]*flight{}
	for _, f := range flights {
		if d.send(f) == nil {
			waiting[d.id] = f
		}
	}
	d.conn.SetReadDeadline(time.Now().Add(d.patience))
	for len(waiting) > 0 {
		n, err := d.conn.Read(d.in)
		if err != nil {
			return
		}
		if n < frameBytes {
			continue
		}
		id := binary.BigEndian.Uint16(d.in)
		f := waiting[id]
		if f == nil {
			continue
		}
		if d.apart && n == frameBytes {
			f.nbefore++
			continue
		}
		if d.apart && len(f.q.keys) > 1 && f.lacksPart(d.in) {
			atomic.AddUint64(d.halves, 1)
			delete(waiting, id)
			continue
		}
		if d.repeats && binary.BigEndian.Uint16(d.in[4:]) > 1 {
			delete(waiting, id)
			continue
		}
		whole, err := f.take(d.in[:n])
		if whole && d.apart {
			whole = f.ended()
		}
		if whole {
			f.ret = d.now()
			f.finish()
			if d.apart && f.err == nil && f.lacksReply() {
				f.err = errLost
				atomic.AddUint64(d.halves, 1)
			}
		} else if err != nil {
			f.err = err
		}
		if whole || err != nil {
			delete(waiting, id)
		}
	}
}

func (d *datagrams) ask(q *request) ([]reply, error) {
	f := &flight{q: q}
	d.askAll([]*flight{f})
	return f.out, f.err
}
