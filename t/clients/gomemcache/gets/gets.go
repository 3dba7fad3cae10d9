// SPDX-License-Identifier: BSD-3-Clause

// Gets without an end, for bench/clients: load HOST PORT AT-ONCE KEYS
// Every value is compared.
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

const items = 1000

func number(word string) int {
	n, err := strconv.Atoi(word)
	if err != nil {
		panic(err)
	}
	return n
}

func check(key string, item *memcache.Item) {
	if item == nil || string(item.Value) != key+strings.Repeat(".", 100-len(key)) {
		panic(fmt.Sprint("load: ", key, " has the value ", item))
	}
}

func ask(c *memcache.Client, nkeys int) {
	keys := make([]string, nkeys)
	for place := 0; ; {
		for i := range keys {
			keys[i] = fmt.Sprintf("load:%03d", place)
			place = (place + 7) % items
		}
		if nkeys == 1 {
			item, err := c.Get(keys[0])
			if err != nil {
				panic(err)
			}
			check(keys[0], item)
			continue
		}
		found, err := c.GetMulti(keys)
		if err != nil {
			panic(err)
		}
		for _, key := range keys {
			check(key, found[key])
		}
	}
}

func main() {
	c := memcache.New(os.Args[1] + ":" + os.Args[2])
	atOnce := number(os.Args[3])
	c.Timeout = time.Hour // the bench stops a client while it measures another
	c.MaxIdleConns = atOnce
	for i := 1; i < atOnce; i++ {
		go ask(c, number(os.Args[4]))
	}
	ask(c, number(os.Args[4]))
}
