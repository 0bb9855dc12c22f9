package main

import (
	"fmt"
	"slices"
	"strings"
)

// required are the rows that the page must have: all of priority P0, and the lower rows about
// attestation, identity, overlay, credentials, the Consul proxy and input. The list is here, so
// that a row cannot be removed from the page, or weakened, without a trace.
var required = rows("P0", `
		ATT 01 02 03 04 05 06 07 08 09 10 12 14 15 16 17 18 19 20 21 23 24 25 27 28 29 30 31
		IDN 01 02 03 04 05 06 07 08 09 10 11
		OVL 01 02 03 05 06 07 08 10 11 12 15 16 19 20
		TOK 01 02 03 04 05 06 07 08 09 10 11 14 15 18 19 20 21
		DOR 01 02 03 04 05 06 08 09 10
		CTL 01 02 03 04 06 07 08 09 10 11 12 13 15 16 17 18 19 20 21 24 25
		HK 01 02 03 04 07
		INP 01 02 03 04 05 06 07 09
		PLT 01 02 03 04 05 06 08 09 10 13 14 16
		OPS 01 02 03 04 06 07 08 10 15
		GEN 01 02 03 04 05
		SUP 01 03`,
	"P1", `
		ATT 11 13 22 26 32 33 34 35
		IDN 12 13 14
		OVL 04 09 13 14 17 21 22
		TOK 12 13 16 22
		DOR 07
		INP 08 10 11 12`,
	"P2", `
		OVL 18
		TOK 17`)

// rows reads lists of a family and its numbers, each behind its priority.
func rows(lists ...string) map[string]string {
	out := map[string]string{}
	for i := 0; i+1 < len(lists); i += 2 {
		for line := range strings.Lines(lists[i+1]) {
			words := strings.Fields(line)
			for _, number := range words[min(1, len(words)):] {
				out[words[0]+"-"+number] = lists[i]
			}
		}
	}
	return out
}

// missing names the required rows that onPage (priority by row) lacks or has with
// another priority.
func missing(onPage map[string]string) []error {
	var errs []error
	for id, priority := range required {
		switch onPage[id] {
		case priority:
		case "":
			errs = append(errs, fmt.Errorf("row %s, of priority %s, is not on the page", id, priority))
		default:
			errs = append(errs, fmt.Errorf("row %s has priority %s on the page, it is %s", id, onPage[id], priority))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errs
}
