package rig

import (
	"slices"
	"testing"
	"time"
)

func TestHoldsAreReadFromAnAgentsLog(t *testing.T) {
	const (
		held     = `time=2026-11-24T12:13:11.100Z level=INFO msg="a route is held" route=postgres-master group=postgres operation=postgres-1.abc/1 limit=5s`
		pooled   = `time=2026-11-24T12:13:11.300Z level=INFO msg="a route is held" route=postgres-pooled group=postgres operation=postgres-1.abc/1 limit=10s`
		released = `time=2026-11-24T12:13:12.200Z level=INFO msg="a route is released" route=postgres-master group=postgres operation=postgres-1.abc/1 held=1.1s connections=3 reason="the new leader is there"`
		expired  = `time=2026-11-24T12:13:21Z level=WARN msg="a route is released" route=postgres-pooled group=postgres operation=postgres-1.abc/1 held=10s connections=0 reason=expired`
	)
	at := func(ms int) time.Time {
		return time.Date(2026, 11, 24, 12, 13, 11, 0, time.UTC).Add(time.Duration(ms) * time.Millisecond)
	}
	master, pool := Hold{Route: masterRoute, From: at(100)}, Hold{Route: pooledRoute, From: at(300)}
	over := Hold{masterRoute, at(100), at(1200), "the new leader is there"}
	for name, c := range map[string]struct {
		lines []string
		want  []Hold
		fails bool
	}{
		"none":                   {nil, nil, false},
		"both are held":          {[]string{held, pooled}, []Hold{master, pool}, false},
		"one is released":        {[]string{held, pooled, released}, []Hold{over, pool}, false},
		"held a second time":     {[]string{held, released, held}, []Hold{over, master}, false},
		"both are released":      {[]string{held, pooled, expired, released}, []Hold{over, {pooledRoute, at(300), at(10000), "expired"}}, false},
		"other lines":            {[]string{`time=x level=WARN msg="a route is not served" route=a`, held}, []Hold{master}, false},
		"released without hold":  {[]string{released}, nil, false},
		"without a time":         {[]string{held[30:]}, nil, true},
		"without a route's name": {[]string{held[:64] + held[86:]}, nil, true},
	} {
		got, err := holdsIn(c.lines)
		if (err != nil) != c.fails || !c.fails && !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestWhichCoordinatorToldSome(t *testing.T) {
	for line, want := range map[string]bool{
		`msg="callers were told to wait for a hand-over" slot=a operation=b waiting=0 not_waiting=1`:  false,
		`msg="callers were told to wait for a hand-over" slot=a operation=b waiting=1 not_waiting=0`:  true,
		`msg="callers were told to wait for a hand-over" slot=a operation=b waiting=10 not_waiting=0`: true,
		`msg="callers were told to wait for a hand-over" slot=a operation=b`:                          false,
	} {
		if toldSome(line) != want {
			t.Errorf("%s: %t", line, !want)
		}
	}
}
