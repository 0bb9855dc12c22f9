package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// decode reads unfinished.txt: a count and a place in each line, ordered by place.
func decode(text string) (map[string]int, error) {
	out := map[string]int{}
	for line := range strings.Lines(text) {
		number, where, ok := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(number)
		if !ok || err != nil || n < 1 {
			return nil, fmt.Errorf("%s: line %q: want a count and a path", unfinished, line)
		}
		out[where] = n
	}
	return out, nil
}

// encode writes it.
func encode(counts map[string]int) string {
	var b strings.Builder
	for _, where := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&b, "%d %s\n", counts[where], where)
	}
	return b.String()
}

// compare lists the places with more errors than recorded, and those with fewer.
func compare(recorded, now map[string]int) (worse, better []string) {
	all := maps.Clone(recorded)
	maps.Copy(all, now)
	for _, where := range slices.Sorted(maps.Keys(all)) {
		switch was, is := recorded[where], now[where]; {
		case is > was:
			worse = append(worse, where)
		case is < was:
			better = append(better, fmt.Sprintf("%s: %d errors, %d are recorded", where, is, was))
		}
	}
	return worse, better
}
