// SPDX-License-Identifier: BSD-3-Clause

// model: what one key of memcached may do, one operation after the other.
//
// A key has a value that is unique among all that were ever written to it, so a value is a
// version. What the model leaves open it leaves open to the server: where memory is short a key
// may be missing at any time, and within the second in which it expires. A missing key stays
// missing until a client stores it again: that is not left open.
package main

import (
	"fmt"
	"math"

	"github.com/anishathalye/porcupine"
)

type kind uint8

const (
	opGet kind = iota
	opSet
	opAdd
	opReplace
	opCas
	opAppend
	opDelete
	opIncr
	opDecr
	opTouch
	opGat
	opFlush
	kinds
)

var kindNames = [kinds]string{"get", "set", "add", "replace", "cas", "append", "delete", "incr",
	"decr", "touch", "gat", "flush_all"}

type result uint8

const (
	resUnknown result = iota // the answer was lost, and perhaps the request
	resHit
	resAbsent // a miss, NOT_FOUND, or NOT_STORED of what needs an item
	resStored
	resRefused // NOT_STORED of add: there is an item
	resExists  // the CAS id is another one
	resDone    // DELETED, TOUCHED, OK
	resNumber
	resFailed // out of memory
)

var resultNames = []string{"?", "hit", "absent", "stored", "refused", "exists", "done", "number",
	"no memory"}

const (
	forever = math.MaxInt64 / 4
	second  = int64(1e9)
)

// Of one history.
const maxClients = 8

// A request. Times are nanoseconds on the test's clock.
type input struct {
	op        kind
	key       int
	value     uint64 // that is stored, appended, or counted by
	expect    uint64 // opCas: the value that the id was of
	ttl       int64  // seconds, 0: never
	call, ret int64  // ret is `forever` where the answer was lost
	client    int
	order     uint16 // of what the client has in flight together, from 1 on; 0: of no row
	via       string
}

type output struct {
	result result
	value  uint64
	cas    uint64 // 0: not in the answer
}

// A key's state. It expires not before `early` and not after `late`.
type state struct {
	present     bool
	value, cas  uint64
	early, late int64
	order       [maxClients]uint16 // of the last of each client's rows
	left        int                // hits in the history that are still to come
}

type rules struct {
	evicts bool  // memory is short
	slack  int64 // between the clocks: the server's moves in ticks
	// A get that overlaps an incr or decr may have the old value with the new id: memcached
	// writes the id into the item that it has replaced, while another thread still answers from it.
	lateIDs bool
}

func chain(value, more uint64) uint64 {
	return (value^value>>29)*0x9e3779b97f4a7c15 + more
}

// The window in which what was stored or touched then expires: the server counts whole seconds.
func (r *rules) window(in *input) (int64, int64) {
	switch {
	case in.ttl == 0:
		return forever, forever
	case in.ret == forever:
		return in.call + (in.ttl-1)*second - r.slack, forever
	}
	return in.call + (in.ttl-1)*second - r.slack, in.ret + in.ttl*second + r.slack
}

func (r *rules) written(in *input, out output) state {
	s := state{present: true, value: in.value, cas: out.cas}
	s.early, s.late = r.window(in)
	return s
}

// The effect of a request with a lost answer, if it arrives. If it may have found the item
// expired, it may have done nothing, and then the item may be missed from its earlier time on.
func (r *rules) guess(s state, in *input) state {
	before := s
	switch in.op {
	case opSet:
		return r.written(in, output{})
	case opDelete, opFlush:
		return state{}
	case opAdd:
		if s.present {
			return s
		}
		return r.written(in, output{})
	}
	if !s.present || (in.op == opCas && s.value != in.expect) {
		return s
	}
	switch in.op {
	case opReplace, opCas:
		s = r.written(in, output{})
	case opAppend, opIncr, opDecr:
		s.value, s.cas = changed(s.value, in), 0
	case opTouch, opGat:
		s.early, s.late = r.window(in)
	}
	if before.early < s.early {
		s.early = before.early
	}
	if before.late > s.late {
		s.late = before.late
	}
	return s
}

func changed(value uint64, in *input) uint64 {
	switch in.op {
	case opAppend:
		return chain(value, in.value)
	case opDecr:
		return value - in.value
	}
	return value + in.value
}

func stored(r *rules, s state, gone bool, in *input, out output) (bool, state) {
	switch in.op {
	case opSet:
		return true, r.written(in, out)
	case opAdd:
		return gone, r.written(in, out)
	case opReplace:
		return s.present, r.written(in, out)
	case opCas:
		return s.present && s.value == in.expect, r.written(in, out)
	}
	s.value, s.cas = changed(s.value, in), out.cas
	return s.present, s
}

// The hits of each value, by key. As a value is written once, none of them can come behind its
// end: that makes the search short.
type sightings []map[uint64]int

func sight(history []porcupine.Operation) sightings {
	var all sightings
	for _, op := range history {
		key, out := op.Input.(*input).key, op.Output.(output)
		for len(all) <= key {
			all = append(all, map[uint64]int{})
		}
		if out.result == resHit {
			all[key][out.value]++
		}
	}
	return all
}

// The gets whose ids tell nothing, for lateIDs.
func besideCounts(history []porcupine.Operation) map[*input]bool {
	beside := map[*input]bool{}
	for _, count := range history {
		by := count.Input.(*input)
		if by.op != opIncr && by.op != opDecr {
			continue
		}
		for _, get := range history {
			if in := get.Input.(*input); in.key == by.key && in.call < by.ret && by.call < in.ret {
				beside[in] = get.Output.(output).result == resHit
			}
		}
	}
	return beside
}

func (r *rules) step(all sightings, s state, in *input, out output) (bool, state) {
	order := s.order
	if in.order != 0 {
		order[in.client]++
		if in.order != order[in.client] {
			return false, s
		}
	}
	ok, next := r.apply(s, in, out)
	if !ok {
		return false, s
	}
	next.order = order
	if out.result == resHit {
		next.left--
	} else if s.present != next.present || s.value != next.value {
		if s.left > 0 {
			return false, s
		}
		next.left = 0
		if next.present {
			next.left = all[in.key][next.value]
		}
	}
	return true, next
}

func (r *rules) apply(s state, in *input, out output) (bool, state) {
	if s.present && in.call > s.late {
		s = state{}
	}
	gone := !s.present || r.evicts || in.ret >= s.early
	switch out.result {
	case resUnknown:
		return true, r.guess(s, in)
	case resHit:
		if !s.present || s.value != out.value || (out.cas != 0 && s.cas != 0 && s.cas != out.cas) {
			return false, s
		}
		if out.cas != 0 {
			s.cas = out.cas
		}
		if in.op == opGat {
			s.early, s.late = r.window(in)
		}
		return true, s
	case resAbsent:
		return gone, state{}
	case resStored:
		return stored(r, s, gone, in, out)
	case resRefused:
		return s.present, s
	case resExists:
		return s.present && s.value != in.expect, s
	case resNumber:
		s.value, s.cas = changed(s.value, in), out.cas
		return s.present && s.value == out.value, s
	case resDone:
		if in.op == opTouch {
			s.early, s.late = r.window(in)
			return s.present, s
		}
		return s.present || in.op == opFlush, state{}
	case resFailed:
		return r.evicts, s
	}
	return false, s
}

func byKey(history []porcupine.Operation) [][]porcupine.Operation {
	var parts [][]porcupine.Operation
	for _, op := range history {
		key := op.Input.(*input).key
		for len(parts) <= key {
			parts = append(parts, nil)
		}
		parts[key] = append(parts[key], op)
	}
	return parts
}

func (r *rules) model(history []porcupine.Operation) porcupine.Model {
	all := sight(history)
	var beside map[*input]bool
	if r.lateIDs {
		beside = besideCounts(history)
	}
	return porcupine.Model{
		Partition: byKey,
		Init:      func() interface{} { return state{} },
		Step: func(s, in, out interface{}) (bool, interface{}) {
			answer := out.(output)
			if beside[in.(*input)] {
				answer.cas = 0
			}
			ok, next := r.step(all, s.(state), in.(*input), answer)
			return ok, next
		},
		DescribeOperation: func(in, out interface{}) string {
			return describe(in.(*input), out.(output))
		},
		DescribeState: func(s interface{}) string {
			if st := s.(state); st.present {
				return fmt.Sprintf("%x cas %d", st.value, st.cas)
			}
			return "absent"
		},
	}
}

func describe(in *input, out output) string {
	text := fmt.Sprintf("%s %s", in.via, kindNames[in.op])
	switch in.op {
	case opGet, opDelete, opTouch, opGat, opFlush:
	default:
		text += fmt.Sprintf(" %x", in.value)
	}
	if in.op == opCas {
		text += fmt.Sprintf(" for %x", in.expect)
	}
	if in.ttl != 0 {
		text += fmt.Sprintf(" %d s", in.ttl)
	}
	text += " -> " + resultNames[out.result]
	if out.result == resHit || out.result == resNumber {
		text += fmt.Sprintf(" %x", out.value)
	}
	if out.cas != 0 {
		text += fmt.Sprintf(" cas %d", out.cas)
	}
	return text
}
