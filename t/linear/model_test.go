// SPDX-License-Identifier: BSD-3-Clause
package main

import (
	"testing"

	"github.com/anishathalye/porcupine"
)

// A history of one key, in milliseconds.
type builder []porcupine.Operation

func (b *builder) add(call, ret int64, in input, out output) *builder {
	in.call, in.ret = call*1e6, ret*1e6
	if out.result == resUnknown {
		in.ret = forever
	}
	*b = append(*b, porcupine.Operation{Input: &in, Call: in.call, Output: out, Return: in.ret})
	return b
}

func (b *builder) set(call, ret int64, value uint64) *builder {
	return b.add(call, ret, input{op: opSet, value: value}, output{result: resStored})
}

func (b *builder) setFor(ttl, call, ret int64, value uint64) *builder {
	return b.add(call, ret, input{op: opSet, value: value, ttl: ttl}, output{result: resStored})
}

func (b *builder) lost(call int64, in input) *builder {
	return b.add(call, 0, in, output{})
}

func (b *builder) hit(call, ret int64, value uint64) *builder {
	return b.add(call, ret, input{op: opGet}, output{result: resHit, value: value})
}

func (b *builder) hitID(call, ret int64, value, cas uint64) *builder {
	return b.add(call, ret, input{op: opGet}, output{result: resHit, value: value, cas: cas})
}

func (b *builder) miss(call, ret int64) *builder {
	return b.add(call, ret, input{op: opGet}, output{result: resAbsent})
}

func (b *builder) does(call, ret int64, op kind, value uint64, out output) *builder {
	return b.add(call, ret, input{op: op, value: value}, out)
}

// The n-th operation of a row, in which all are in flight together.
func (b *builder) row(client int, n uint16, in input, out output) *builder {
	in.client, in.order = client, n
	return b.add(1, 9, in, out)
}

func history1() *builder { return &builder{} }

func TestHistories(t *testing.T) {
	done, absent := output{result: resDone}, output{result: resAbsent}
	lostSet := input{op: opSet, value: 2}
	set2, stored := lostSet, output{result: resStored}
	for _, test := range []struct {
		name   string
		evicts bool
		right  bool
		h      *builder
	}{
		{"a read after a write", false, true, history1().set(1, 2, 1).hit(3, 4, 1)},
		{"an older value after a write", false, false,
			history1().set(1, 2, 1).set(3, 4, 2).hit(5, 6, 1)},
		{"either value beside a write", false, true,
			history1().set(1, 2, 1).set(3, 9, 2).hit(4, 5, 1).hit(6, 7, 2)},
		{"the new value and then the old one", false, false,
			history1().set(1, 2, 1).set(3, 9, 2).hit(4, 5, 2).hit(6, 7, 1)},
		{"a miss of what is there", false, false, history1().set(1, 2, 1).miss(3, 4)},
		{"a miss where memory is short", true, true, history1().set(1, 2, 1).miss(3, 4)},
		{"an item that comes back", true, false,
			history1().set(1, 2, 1).miss(3, 4).hit(5, 6, 1)},
		{"a get that is behind a set in its row", false, false,
			history1().row(1, 1, set2, stored).row(1, 2, input{op: opGet}, absent)},
		{"a get that is before a set in its row", false, true,
			history1().row(1, 1, input{op: opGet}, absent).row(1, 2, set2, stored)},
		{"a get that is in another row than a set", false, true,
			history1().row(1, 1, set2, stored).row(2, 1, input{op: opGet}, absent)},
		{"gat puts the end off", false, false, history1().setFor(1, 1, 2, 1).
			add(3, 4, input{op: opGat, ttl: 9}, output{result: resHit, value: 1}).miss(5000, 5001)},
		{"gat brings the end", false, true, history1().setFor(9, 1, 2, 1).
			add(3, 4, input{op: opGat, ttl: 1}, output{result: resHit, value: 1}).miss(5000, 5001)},
		{"gat of another value", false, false, history1().set(1, 2, 1).
			add(3, 4, input{op: opGat}, output{result: resHit, value: 2})},
		{"a value after delete", false, false,
			history1().set(1, 2, 1).does(3, 4, opDelete, 0, done).hit(5, 6, 1)},
		{"a value after flush_all", false, false,
			history1().set(1, 2, 1).does(3, 4, opFlush, 0, done).hit(5, 6, 1)},
		{"a lost write that happened late", false, true,
			history1().set(1, 2, 1).lost(3, lostSet).hit(5, 6, 1).hit(7, 8, 2)},
		{"a lost write that never happened", false, true,
			history1().set(1, 2, 1).lost(3, lostSet).hit(5, 6, 1)},
		{"a lost write that happened and did not", false, false,
			history1().set(1, 2, 1).lost(3, lostSet).hit(5, 6, 2).hit(7, 8, 1)},
		{"one value with two ids", false, false,
			history1().set(1, 2, 1).hitID(3, 4, 1, 7).hitID(5, 6, 1, 8)},
		{"a number that was counted twice", false, false,
			history1().set(1, 2, 10).does(3, 4, opIncr, 1, output{result: resNumber, value: 11}).
				does(5, 6, opIncr, 1, output{result: resNumber, value: 11})},
		{"what append makes", false, true, history1().set(1, 2, 1).
			does(3, 4, opAppend, 2, output{result: resStored}).hit(5, 6, chain(1, 2))},
		{"an item before its time is over", false, true,
			history1().setFor(2, 1, 2, 1).hit(900, 901, 1).miss(1100, 1101)},
		{"an item that goes before its time", false, false,
			history1().setFor(2, 1, 2, 1).miss(900, 901)},
		{"an item after its time", false, false,
			history1().setFor(2, 1, 2, 1).hit(2100, 2101, 1)},
		{"an expired item that comes back", false, false,
			history1().setFor(2, 1, 2, 1).miss(1500, 1501).hit(1600, 1601, 1)},
		{"an item that incr finds expired and a get does not", false, false,
			history1().setFor(2, 1, 2, 1).does(1500, 1501, opIncr, 1, absent).hit(1600, 1601, 1)},
	} {
		r := rules{evicts: test.evicts, slack: 1e6}
		if porcupine.CheckOperations(r.model(*test.h), *test.h) != test.right {
			t.Errorf("%s: not %v", test.name, test.right)
		}
	}
}

func TestLateIDs(t *testing.T) {
	counted := func(value, cas uint64) *builder {
		return history1().set(1, 2, 10).hitID(3, 4, 10, 7).hitID(6, 9, value, cas).
			does(5, 8, opIncr, 1, output{result: resNumber, value: 11, cas: 8}).hitID(11, 12, 11, 8)
	}
	for _, test := range []struct {
		name         string
		always, late bool
		h            *builder
	}{
		{"the old value with its id beside incr", true, true, counted(10, 7)},
		{"the old value with the new id beside incr", false, true, counted(10, 8)},
		{"another value beside incr", false, false, counted(12, 8)},
		{"the new value with the old id behind incr", false, false,
			counted(10, 7).hitID(13, 14, 11, 7)},
	} {
		for late, right := range map[bool]bool{false: test.always, true: test.late} {
			r := rules{lateIDs: late, slack: 1e6}
			if porcupine.CheckOperations(r.model(*test.h), *test.h) != right {
				t.Errorf("%s, lateIDs %v: not %v", test.name, late, right)
			}
		}
	}
}

func TestValues(t *testing.T) {
	one, two := piece(1, 100), piece(2, 50)
	if value, first, err := readText(one); value != 1 || first != 1 || err != nil {
		t.Error("a piece is not what it was made of:", value, first, err)
	}
	both := append(append([]byte{}, one...), two...)
	if value, _, err := readText(both); value != chain(1, 2) || err != nil {
		t.Error("two pieces are not what they were made of:", value, err)
	}
	for at := range both {
		torn := append([]byte{}, both...)
		torn[at]++
		if value, _, err := readText(torn); err == nil && value == chain(1, 2) {
			t.Error("another byte is not seen:", at)
		}
	}
}
