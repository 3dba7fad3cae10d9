// SPDX-License-Identifier: BSD-3-Clause

// value: values that identify themselves, so that a torn value, or another key's, is recognized
// by itself.
//
// A text is pieces one behind the other, as append puts them: 8 hex digits of an id, 4 of a
// length, and so many bytes that follow from the id. A number is 19 digits.
package main

import (
	"encoding/hex"
	"fmt"
	"strconv"
)

const pieceHead = 12

// A number's first value is far from every other's, and the sums of increments are small.
const (
	numberBase = 1000000000000000000
	numberStep = 1 << 24
)

func fillWord(id uint32, at int) uint64 {
	x := uint64(id)<<32 + uint64(at) + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	return x ^ x>>27
}

func piece(id uint32, nfill int) []byte {
	out := make([]byte, 0, pieceHead+nfill)
	out = append(out, fmt.Sprintf("%08x%04x", id, nfill)...)
	for at := 0; at < nfill; at++ {
		out = append(out, 'a'+byte(fillWord(id, at)&15))
	}
	return out
}

// The value that a text stands for: its ids, chained. first is that of the flags.
func readText(text []byte) (value uint64, first uint32, err error) {
	for at := 0; at < len(text) || at == 0; {
		if len(text)-at < pieceHead {
			return 0, 0, fmt.Errorf("a piece without a head at %d of %d", at, len(text))
		}
		head, err := hex.DecodeString(string(text[at : at+pieceHead]))
		if err != nil {
			return 0, 0, fmt.Errorf("a torn head at %d of %d: %q", at, len(text),
				text[at:at+pieceHead])
		}
		id := uint32(head[0])<<24 | uint32(head[1])<<16 | uint32(head[2])<<8 | uint32(head[3])
		nfill := int(head[4])<<8 | int(head[5])
		at += pieceHead
		if nfill > len(text)-at {
			return 0, 0, fmt.Errorf("a piece of %d bytes at %d of %d", nfill, at, len(text))
		}
		for i := 0; i < nfill; i++ {
			if text[at+i] != 'a'+byte(fillWord(id, i)&15) {
				return 0, 0, fmt.Errorf("torn at %d of %d, in piece %08x", at+i, len(text), id)
			}
		}
		if at == pieceHead {
			value, first = uint64(id), id
		} else {
			value = chain(value, uint64(id))
		}
		at += nfill
	}
	return value, first, nil
}

func readNumber(text []byte) (uint64, error) {
	n, err := strconv.ParseUint(string(text), 10, 64)
	if err == nil && len(text) != 19 {
		err = fmt.Errorf("a number of %d digits", len(text))
	}
	return n, err
}
