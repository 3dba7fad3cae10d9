// SPDX-License-Identifier: BSD-3-Clause

// stress: the load on the server beside the histories.
package main

import (
	"fmt"
	"math/rand"
	"strings"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
)

const burst = 64

// Keeps to a rate, and returns false when the run is over.
type pacer struct {
	run  *run
	next time.Time
}

func (p *pacer) wait(pause time.Duration) bool {
	now := time.Now()
	p.next = p.next.Add(pause)
	if p.next.Before(now) {
		p.next = now
	}
	for !p.run.over() {
		left := time.Until(p.next)
		if left <= 0 {
			return true
		}
		if left > 100*time.Millisecond {
			left = 100 * time.Millisecond
		}
		time.Sleep(left)
	}
	return false
}

func pause(rate int) time.Duration {
	return time.Second * burst / time.Duration(rate)
}

// Sends many requests at once and reads an answer line to each.
func (s *stream) pipeline(requests string, n int) error {
	if _, err := s.conn.Write([]byte(requests)); err != nil {
		return err
	}
	for ; n > 0; n-- {
		if _, err := line(s.in); err != nil {
			return err
		}
	}
	return nil
}

// Stores other keys over and over, of the sizes that the histories have, some that soon expire.
func (r *run) churn(s *stream, rng *rand.Rand) error {
	p := pacer{run: r}
	fill := strings.Repeat("x", 2000)
	for p.wait(pause(r.churnRate)) {
		var b strings.Builder
		n := 0
		for i := 0; i < burst; i++ {
			key := rng.Intn(r.fillers)
			size := fills[rng.Intn(len(fills))] + pieceHead
			switch rng.Intn(8) {
			case 0:
				fmt.Fprintf(&b, "delete f%d\r\n", key)
			case 1:
				fmt.Fprintf(&b, "touch f%d %d\r\n", key, rng.Intn(3))
			default:
				fmt.Fprintf(&b, "set f%d 0 %d %d\r\n%s\r\n", key, rng.Intn(2), size, fill[:size])
			}
			n++
		}
		if err := s.pipeline(b.String(), n); err != nil {
			return err
		}
		atomic.AddUint64(&r.count.churned, uint64(n))
	}
	return nil
}

// Stores the other keys once, so that memory is short from the start.
func (r *run) fill() error {
	s, err := r.connect()
	if err != nil {
		return err
	}
	defer s.conn.Close()
	fill := strings.Repeat("x", 2000)
	for at := 0; at < r.fillers; at += burst {
		var b strings.Builder
		for i := at; i < at+burst; i++ {
			size := fills[i%len(fills)] + pieceHead
			fmt.Fprintf(&b, "set f%d 0 0 %d\r\n%s\r\n", i, size, fill[:size])
		}
		if err := s.pipeline(b.String(), burst); err != nil {
			return err
		}
	}
	return nil
}

// Stores new keys, so that the table grows.
func (r *run) grow(s *stream, rng *rand.Rand) error {
	p := pacer{run: r}
	for at := 0; at < r.growTo && p.wait(pause(r.growRate)); at += burst {
		var b strings.Builder
		for i := 0; i < burst; i++ {
			fmt.Fprintf(&b, "set g%s%d 0 0 1\r\nx\r\n", r.prefix, at+i)
		}
		if err := s.pipeline(b.String(), burst); err != nil {
			return err
		}
		atomic.AddUint64(&r.count.grown, burst)
	}
	return nil
}

// Stores items of each size and deletes most of them, so that pages can be moved without any
// item having to go.
func (r *run) makeRoom() error {
	s, err := r.connect()
	if err != nil {
		return err
	}
	defer s.conn.Close()
	for _, size := range []int{1, 60, 100, 150, 200, 260, 340, 450, 560, 700, 900, 1400} {
		n := (4 << 20) / (size + 100)
		for pass := 0; pass < 2; pass++ {
			for at := 0; at < n; at += burst {
				var b strings.Builder
				answers := 0
				for i := at; i < at+burst; i++ {
					if pass == 0 {
						fmt.Fprintf(&b, "set r%d-%d 0 0 %d\r\n%0*d\r\n", size, i, size, size, 0)
					} else if i%8 != 0 {
						fmt.Fprintf(&b, "delete r%d-%d\r\n", size, i)
					} else {
						continue
					}
					answers++
				}
				if err := s.pipeline(b.String(), answers); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Moves pages to the pool and from there to the classes in turn.
func (r *run) move(s *stream, rng *rand.Rand) error {
	p := pacer{run: r}
	for turn := 0; p.wait(time.Millisecond); turn++ {
		for _, text := range []string{"slabs reassign -1 0",
			fmt.Sprintf("slabs reassign 0 %d", turn%24+1)} {
			if _, err := s.command(text, false); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *run) crawl(s *stream, rng *rand.Rand) error {
	p := pacer{run: r}
	for p.wait(5 * time.Millisecond) {
		if _, err := s.command("lru_crawler crawl all", false); err != nil {
			return err
		}
	}
	return nil
}

// flush_all is an operation of every history that goes on meanwhile: none ends before it has.
func (r *run) flush(s *stream, rng *rand.Rand) error {
	p := pacer{run: r}
	for p.wait(time.Duration(float64(r.flushPeriod) * (0.5 + rng.Float64()))) {
		r.rotation.Lock()
		in := &input{op: opFlush, via: "text", call: r.now()}
		answer, err := s.command("flush_all", false)
		in.ret = r.now()
		if err == nil && answer[0] != "OK" {
			err = fmt.Errorf("flush_all: %q", answer)
		}
		op := porcupine.Operation{ClientId: r.nclients, Input: in, Call: in.call,
			Output: output{result: resDone}, Return: in.ret}
		for _, g := range r.groups {
			if g.targets != nil {
				g.flushes = append(g.flushes, op)
				atomic.AddUint64(&r.count.byKind[opFlush], uint64(len(g.targets)))
			}
		}
		r.rotation.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *run) startStress() error {
	for _, part := range []struct {
		wanted bool
		body   func(*stream, *rand.Rand) error
	}{
		{r.churnRate > 0, r.churn}, {r.growTo > 0, r.grow}, {r.moves, r.move}, {r.crawls, r.crawl},
		{r.flushPeriod > 0, r.flush},
	} {
		if !part.wanted {
			continue
		}
		s, err := r.connect()
		if err != nil {
			return err
		}
		body, rng := part.body, rand.New(rand.NewSource(r.rng.Int63()))
		r.stress.Add(1)
		go func() {
			defer r.stress.Done()
			if err := body(s, rng); err != nil {
				r.fail(err)
			}
		}()
	}
	return nil
}
