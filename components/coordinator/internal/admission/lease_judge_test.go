package admission

import (
	"testing"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/store"
)

func TestStepsOfALease(t *testing.T) {
	const ttl = 10 * time.Second
	free := func(boot string, state store.LeaseState) view.Boot {
		return view.Boot{BootLease: store.BootLease{BootID: boot, State: state, By: "c-1"}, Index: 5}
	}
	kept := func(boot, session, by string, state store.LeaseState) view.Boot {
		out := free(boot, state)
		out.Session, out.By = session, by
		return out
	}
	for name, c := range map[string]struct {
		o    outlook
		want step
	}{
		"kept and heard":                    {outlook{lease: kept("b", "own", "c-0", ""), live: true}, leave},
		"kept, silent for a moment":         {outlook{lease: kept("b", "own", "c-0", ""), silent: ttl/2 - 1}, leave},
		"kept, silent":                      {outlook{lease: kept("b", "own", "c-0", ""), silent: ttl / 2}, offer},
		"kept, silent for long":             {outlook{lease: kept("b", "own", "c-0", ""), silent: time.Hour, stood: time.Hour}, offer},
		"offered, not for long":             {outlook{lease: kept("b", "own", "c-0", store.LeaseOffered), silent: time.Hour, stood: ttl/4 - 1}, leave},
		"offered, and not taken":            {outlook{lease: kept("b", "own", "c-0", store.LeaseOffered), silent: ttl, stood: ttl / 4}, giveUp},
		"offered, silent not for long":      {outlook{lease: kept("b", "own", "c-0", store.LeaseOffered), silent: ttl - 1, stood: ttl}, leave},
		"offered, and heard again":          {outlook{lease: kept("b", "own", "c-0", store.LeaseOffered), live: true}, take},
		"another keeps it":                  {outlook{lease: kept("b", "s", "c-1", ""), live: true, stood: time.Hour}, leave},
		"another keeps it, not heard":       {outlook{lease: kept("b", "s", "c-1", ""), silent: time.Hour, stood: time.Hour}, leave},
		"another offers it":                 {outlook{lease: kept("b", "s", "c-1", store.LeaseOffered), live: true}, take},
		"another offers it, others first":   {outlook{lease: kept("b", "s", "c-1", store.LeaseOffered), live: true, rank: 2, stood: ttl/10 - 1}, leave},
		"another offers it, others did not": {outlook{lease: kept("b", "s", "c-1", store.LeaseOffered), live: true, rank: 2, stood: ttl / 10}, take},
		"another offers it, not heard":      {outlook{lease: kept("b", "s", "c-1", store.LeaseOffered), silent: time.Hour}, leave},
		"own of an earlier life":            {outlook{lease: kept("b", "s", "c-0", ""), live: true, rank: 2}, take},
		"own of an earlier life, not heard": {outlook{lease: kept("b", "s", "c-0", ""), silent: time.Hour}, leave},
		"free and heard":                    {outlook{lease: free("b", ""), live: true}, take},
		"free and heard, others first":      {outlook{lease: free("b", ""), live: true, rank: 1}, leave},
		"free, heard again after silence":   {outlook{lease: free("b", store.LeaseSilent), live: true}, take},
		"free and silent":                   {outlook{lease: free("b", ""), silent: time.Hour, stood: time.Hour}, leave},
		"free of the boot before":           {outlook{lease: free("a", store.LeaseEnded), live: true}, take},
		"never was":                         {outlook{live: true}, take},
		"after a farewell":                  {outlook{lease: free("b", store.LeaseEnded), live: true, stood: time.Hour}, leave},
		"of a boot that is not on record":   {outlook{lease: kept("c", "own", "c-0", ""), live: true, silent: time.Hour}, leave},
	} {
		c.o.boot, c.o.self, c.o.session, c.o.ttl = "b", "c-0", "own", ttl
		if got := judge(c.o); got != c.want {
			t.Errorf("%s: step %d, want %d", name, got, c.want)
		}
	}
	if got := judge(outlook{self: "c-0", live: true, stood: time.Hour, ttl: ttl}); got != leave {
		t.Errorf("without an admission: step %d", got)
	}
}

func TestEachSlotHasAnOrderOfCoordinators(t *testing.T) {
	all := []string{"coordinator-0", "coordinator-1", "coordinator-2"}
	first := map[string]int{}
	for _, slot := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"} {
		places := map[int]bool{}
		for _, self := range all {
			place := rank(slot, self, all)
			places[place] = true
			if place == 0 {
				first[self]++
			}
		}
		if !places[0] || !places[1] || !places[2] {
			t.Errorf("%s: places %v", slot, places)
		}
	}
	if len(first) != len(all) {
		t.Errorf("first of all slots: %v", first)
	}
}
