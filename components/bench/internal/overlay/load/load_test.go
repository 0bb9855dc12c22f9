package load

import (
	"context"
	"net"
	"testing"
	"time"
)

func TestPercentileIsNearestRank(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	for _, c := range []struct {
		values []time.Duration
		p      int
		want   time.Duration
	}{
		{hundred, 50, 50}, {hundred, 99, 99}, {hundred, 100, 100}, {hundred, 1, 1},
		{[]time.Duration{7}, 50, 7}, {[]time.Duration{7}, 99, 7},
		{[]time.Duration{1, 2, 3}, 50, 2}, {[]time.Duration{1, 2, 3}, 99, 3},
	} {
		if got := Percentile(c.values, c.p); got != c.want {
			t.Errorf("p%d of %d values = %d, want %d", c.p, len(c.values), got, c.want)
		}
	}
}

func TestSummarizeOfNothing(t *testing.T) {
	if got := Summarize(nil); got != (Latency{}) {
		t.Errorf("got %+v, want zero", got)
	}
}

func TestLongestSilence(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	got := LongestSilence([]time.Time{at(0), at(5), at(300), at(310), at(500)})
	if got.From != at(5) || got.To != at(300) {
		t.Errorf("got %v to %v, want 5 to 300", got.From, got.To)
	}
	if s := LongestSilence([]time.Time{at(1)}); s.Length() != 0 {
		t.Errorf("one answer has a silence of %v", s.Length())
	}
}

func TestTrafficReachesServer(t *testing.T) {
	var s Server
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Listen(ln)
	defer s.Close()
	to := ln.Addr().String()
	flow, err := startBulk(t.Context(), Sockets{}.Mode, to, 3)
	if err != nil {
		t.Fatal(err)
	}
	deadline, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for s.Count().Bytes < 10*chunk {
		select {
		case <-tick.C:
		case <-deadline.Done():
			t.Fatalf("%d bytes arrived, want at least %d", s.Count().Bytes, 10*chunk)
		}
	}
	if err := flow.stop(); err != nil {
		t.Error(err)
	}
	latency, err := pings(t.Context(), Sockets{}.Mode, to, 10*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if latency.Count == 0 || latency.Median > latency.P99 {
		t.Errorf("odd latency %+v", latency)
	}
}

func TestBeatGoesOnAfterItsServerReturns(t *testing.T) {
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	to := ln.Addr().String()
	var first Server
	first.Listen(ln)
	b, err := startBeat(t.Context(), Sockets{}.Mode, to, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	b.mu.Lock()
	before := len(b.answers)
	b.mu.Unlock()
	again, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	var second Server
	second.Listen(again)
	defer second.Close()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		b.mu.Lock()
		n := len(b.answers)
		b.mu.Unlock()
		if n > before+1 {
			break
		}
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("the beat did not come back")
		}
	}
	if s := b.stop(); s.Length() <= 0 {
		t.Errorf("no silence seen: %+v", s)
	}
}
