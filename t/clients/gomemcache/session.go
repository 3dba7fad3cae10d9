// SPDX-License-Identifier: BSD-3-Clause

// A session of gomemcache, a client of the text protocol: session PORT
package main

import (
	"bytes"
	"fmt"
	"os"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

type report struct{ count, failed int }

func (r *report) is(got, want any, name string) {
	r.count++
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		r.failed++
		fmt.Printf("not ok %d - %s\n# got:  %.300s\n# want: %.300s\n", r.count, name, g, w)
		return
	}
	fmt.Printf("ok %d - %s\n", r.count, name)
}

func item(key, value string) *memcache.Item {
	return &memcache.Item{Key: key, Value: []byte(value)}
}

// The value, or the error's text.
func value(c *memcache.Client, key string) string {
	it, err := c.Get(key)
	if err != nil {
		return err.Error()
	}
	return string(it.Value)
}

var miss = memcache.ErrCacheMiss.Error()

func storage(r *report, c *memcache.Client) {
	r.is(c.Ping(), nil, "ping")
	r.is(c.Set(item("a", "1")), nil, "set")
	r.is(value(c, "a"), "1", "get returns the value")
	r.is(value(c, "none"), miss, "get misses")
	r.is(c.Add(item("a", "2")), memcache.ErrNotStored, "add keeps an existing value")
	r.is(c.Add(item("b", "2")), nil, "add stores a missing key")
	r.is(c.Replace(item("none", "2")), memcache.ErrNotStored, "replace stores no missing key")
	r.is(c.Replace(item("b", "3")), nil, "replace stores an existing key")
	r.is(c.Append(item("b", "4")), nil, "append")
	r.is(c.Prepend(item("b", "2")), nil, "prepend")
	r.is(c.Append(item("none", "4")), memcache.ErrNotStored, "append to a missing key stores nothing")
	r.is(value(c, "b"), "234", "the value has all three parts")
	r.is(c.Set(&memcache.Item{Key: "f", Value: []byte("x"), Flags: 1 << 31}), nil, "set with flags")
	it, err := c.Get("f")
	r.is(err, nil, "get")
	r.is(it.Flags, uint32(1<<31), "get returns the flags")
}

func uniqueIDs(r *report, c *memcache.Client) {
	r.is(c.Set(item("cas", "1")), nil, "set")
	first, _ := c.Get("cas")
	second, _ := c.Get("cas")
	first.Value, second.Value = []byte("2"), []byte("3")
	r.is(c.CompareAndSwap(first), nil, "cas with the id of gets stores")
	r.is(c.CompareAndSwap(second), memcache.ErrCASConflict, "cas with the old id stores nothing")
	r.is(value(c, "cas"), "2", "the value is that of the first cas")
	r.is(c.Delete("cas"), nil, "delete")
	r.is(c.CompareAndSwap(first), memcache.ErrCacheMiss, "cas of a deleted key misses")
}

func numbers(r *report, c *memcache.Client) {
	r.is(c.Set(item("n", "10")), nil, "set")
	n, err := c.Increment("n", 5)
	r.is(fmt.Sprint(n, err), "15 <nil>", "incr")
	n, err = c.Decrement("n", 6)
	r.is(fmt.Sprint(n, err), "9 <nil>", "decr")
	n, err = c.Decrement("n", 100)
	r.is(fmt.Sprint(n, err), "0 <nil>", "decr stops at 0")
	_, err = c.Increment("none", 1)
	r.is(err, memcache.ErrCacheMiss, "incr of a missing key misses")
	r.is(c.Set(item("n", "word")), nil, "set of a word")
	_, err = c.Increment("n", 1)
	r.is(err != nil && err != memcache.ErrCacheMiss, true, "incr of a word is an error")
}

func many(r *report, c *memcache.Client) {
	var keys []string
	for i := 0; i < 200; i++ {
		key := fmt.Sprint("m", i)
		keys = append(keys, key)
		if err := c.Set(item(key, fmt.Sprint("value ", i))); err != nil {
			r.is(err, nil, "set of "+key)
		}
	}
	found, err := c.GetMulti(append(keys, "none"))
	r.is(err, nil, "a get of 201 keys")
	r.is(len(found), 200, "the reply has 200 keys")
	right := 0
	for i, key := range keys {
		if it, ok := found[key]; ok && string(it.Value) == fmt.Sprint("value ", i) {
			right++
		}
	}
	r.is(right, 200, "each key has its own value")
}

func values(r *report, c *memcache.Client) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	sizes := map[string][]byte{
		"no bytes":            {},
		"bytes of every kind": append(all, "\r\nEND\r\n"...),
		"1 MB":                bytes.Repeat(all, 3906),
	}
	for name, want := range sizes {
		r.is(c.Set(&memcache.Item{Key: "v", Value: want}), nil, "set of a value of "+name)
		it, err := c.Get("v")
		r.is(err == nil && bytes.Equal(it.Value, want), true, "get returns "+name)
	}
	err := c.Set(&memcache.Item{Key: "v", Value: make([]byte, 1<<20)})
	r.is(err != nil, true, "set of a value over the limit fails")
	r.is(c.Set(item("v", "after")), nil, "the server serves the next set")
	r.is(value(c, "v"), "after", "the server serves the get after it")
}

// The item expires within 10 s.
func gone(r *report, c *memcache.Client, key, name string) {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		if value(c, key) == miss {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	r.is(value(c, key), miss, name)
}

func times(r *report, c *memcache.Client) {
	r.is(c.Set(&memcache.Item{Key: "t", Value: []byte("x"), Expiration: 1}), nil, "set for 1 s")
	r.is(c.Set(item("u", "x")), nil, "set for ever")
	r.is(c.Touch("u", 1), nil, "touch")
	r.is(c.Touch("none", 1), memcache.ErrCacheMiss, "touch of a missing key")
	r.is(c.Set(item("g", "x")), nil, "set for ever")
	it, err := c.GetAndTouch("g", 1)
	r.is(err == nil && string(it.Value) == "x", true, "gat returns the value")
	_, err = c.GetAndTouch("none", 1)
	r.is(err, memcache.ErrCacheMiss, "gat misses")
	gone(r, c, "t", "an item expires")
	gone(r, c, "u", "a touched item expires")
	gone(r, c, "g", "an item expires at the time that gat set")
}

func deletes(r *report, c *memcache.Client) {
	r.is(c.Delete("a"), nil, "delete")
	r.is(c.Delete("a"), memcache.ErrCacheMiss, "delete again")
	r.is(value(c, "b"), "234", "another item still exists")
	r.is(c.FlushAll(), nil, "flush_all")
	r.is(value(c, "b"), miss, "get misses afterwards")
}

func main() {
	c := memcache.New("127.0.0.1:" + os.Args[1])
	c.Timeout = 10 * time.Second
	r := &report{}
	for _, part := range []func(*report, *memcache.Client){
		storage, uniqueIDs, numbers, many, values, times, deletes,
	} {
		part(r, c)
	}
	fmt.Printf("1..%d\n", r.count)
	if r.failed > 0 {
		os.Exit(1)
	}
}
