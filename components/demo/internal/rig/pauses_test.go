package rig

import (
	"slices"
	"testing"
	"time"
)

func TestHoldsAreReadFromAnAgentsLog(t *testing.T) {
	const (
		held     = `{"@level":"info","@message":"a route is paused","@timestamp":"2026-11-24T12:13:11.1Z","group":"postgres","limit":5000000000,"operation":"postgres-1.restart-abc/1","route":"postgres-master"}`
		pooled   = `{"@level":"info","@message":"a route is paused","@timestamp":"2026-11-24T12:13:11.3Z","group":"postgres","limit":5000000000,"operation":"postgres-1.restart-abc/1","route":"postgres-pooled"}`
		released = `{"@level":"info","@message":"a route is released","@timestamp":"2026-11-24T12:13:12.2Z","paused":1100000000,"operation":"postgres-1.restart-abc/1","reason":"the new leader is there","route":"postgres-master"}`
		expired  = `{"@level":"warn","@message":"a route is released","@timestamp":"2026-11-24T12:13:21Z","paused":10000000000,"operation":"postgres-1.restart-abc/1","reason":"expired","route":"postgres-pooled"}`
		refused  = `{"@level":"warn","@message":"a route cannot be paused","@timestamp":"2026-11-24T12:13:11.1Z","error":"odd","operation":"postgres-1.restart-abc/1","route":"postgres-pooled"}`
	)
	at := func(ms int) time.Time {
		return time.Date(2026, 11, 24, 12, 13, 11, 0, time.UTC).Add(time.Duration(ms) * time.Millisecond)
	}
	master, pool := Hold{Route: masterRoute, From: at(100)}, Hold{Route: pooledRoute, From: at(300)}
	over := Hold{masterRoute, at(100), at(1200), "the new leader is there"}
	for name, c := range map[string]struct {
		lines []string
		want  []Hold
	}{
		"none":                  {nil, nil},
		"both are held":         {[]string{held, pooled}, []Hold{master, pool}},
		"one is released":       {[]string{held, pooled, released}, []Hold{over, pool}},
		"held a second time":    {[]string{held, released, held}, []Hold{over, master}},
		"both are released":     {[]string{held, pooled, expired, released}, []Hold{over, {pooledRoute, at(300), at(10000), "expired"}}},
		"one cannot be held":    {[]string{held, refused, released, expired}, []Hold{over}},
		"released without hold": {[]string{released}, nil},
		"being written":         {[]string{held, released[:len(released)-1]}, []Hold{master}},
	} {
		if got := holdsIn(c.lines); !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestTheLogShowsWaitingCallers(t *testing.T) {
	for line, want := range map[string]bool{
		`{"@message":"callers were asked to wait for a hand-over","operation":"b","waiting":0,"not_waiting":1}`:  false,
		`{"@message":"callers were asked to wait for a hand-over","operation":"b","waiting":1,"not_waiting":0}`:  true,
		`{"@message":"callers were asked to wait for a hand-over","operation":"b","waiting":10,"not_waiting":0}`: true,
		`{"@message":"callers were asked to wait for a hand-over","operation":"b"}`:                              false,
		`{"@message":"another","operation":"b","waiting":1}`:                                                     false,
		`callers were asked to wait for a hand-over waiting=1`:                                                   false,
	} {
		if someWaited(line) != want {
			t.Errorf("%s: %t", line, !want)
		}
	}
}
