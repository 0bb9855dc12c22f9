package overlay

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"cadre.dev/overlay/internal/frame"
)

// linked gives two nodes of one group with a Session.
func linked(t *testing.T, change ...func(*Config)) (a, b *testNode) {
	t.Helper()
	w := newWorld(t)
	a, b = w.node("db", "a", 1, change...), w.node("db", "b", 2, change...)
	connect(a, b, nil, nil)
	a.session(t, b)
	b.session(t, a)
	return a, b
}

func TestPing(t *testing.T) {
	a, b := linked(t)
	for _, n := range [][2]*testNode{{a, b}, {b, a}} {
		res, err := n[0].Ping(t.Context(), n[1].id, 2)
		if err != nil || len(res.Samples) != 2 || res.Peer != n[1].id {
			t.Fatalf("ping: %+v, error %v", res, err)
		}
		for _, s := range res.Samples {
			if s.Err != nil || s.RTT <= 0 || s.Path != PathGateway || s.Carrier != "tls" {
				t.Errorf("sample %+v, want an answer over the gateway", s)
			}
		}
	}
}

func TestPingSaysWhyItMeasuresNothing(t *testing.T) {
	a, b := linked(t)
	if _, err := a.Ping(t.Context(), ID{Cluster: testCluster, Group: "db", Slot: "c"}, 1); !errors.Is(err, ErrUnknownPeer) {
		t.Errorf("unknown peer: %v, want %v", err, ErrUnknownPeer)
	}
	for _, count := range []int{0, -1, MaxPings + 1} {
		if _, err := a.Ping(t.Context(), b.id, count); err == nil {
			t.Errorf("%d round trips were asked for and done", count)
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Ping(over, b.id, 1); err == nil {
		t.Error("a ping whose time is up measured something")
	}
	b.SetPeers(nil)
	eventually(t, "loss noticed", func() bool { return a.Sessions()[0].State != SessionUp })
	if _, err := a.Ping(t.Context(), b.id, 1); !errors.Is(err, ErrNoSession) {
		t.Errorf("no session: %v, want %v", err, ErrNoSession)
	}
}

// A Session that ends between two round trips costs samples, not the result.
func TestPingGoesOnAfterALoss(t *testing.T) {
	a, b := linked(t)
	var losing sync.WaitGroup
	losing.Go(func() { b.SetPeers(nil) })
	defer losing.Wait()
	res, err := a.Ping(t.Context(), b.id, 4)
	if err != nil && !errors.Is(err, ErrNoSession) {
		t.Fatalf("ping: %+v, error %v", res, err)
	}
	if err == nil && (len(res.Samples) != 4 || res.Samples[3].Err == nil) {
		t.Errorf("samples %+v, want four, and the last without an answer", res.Samples)
	}
}

func TestBenchMovesBytesBothWays(t *testing.T) {
	a, b := linked(t)
	for _, dir := range []BenchDirection{BenchSend, BenchReceive} {
		if err := b.AllowBench(a.id, time.Minute); err != nil {
			t.Fatal(err)
		}
		res, err := a.Bench(t.Context(), b.id, 400*time.Millisecond, dir)
		if err != nil {
			t.Fatal(err)
		}
		if res.Bytes == 0 || res.Took <= 0 || res.Mbps() <= 0 || res.RTT <= 0 || res.Path != PathGateway || res.Carrier != "tls" || res.Direction != dir || res.Moved {
			t.Errorf("%s: %+v", dir, res)
		}
		t.Logf("%s: %.0f Mbps, %v idle, %v loaded", dir, res.Mbps(), res.RTT, res.LoadedRTT)
	}
	// The Session's traffic is counted, and the count survives its end.
	before := a.Stats().Peers[0]
	if before.BytesIn == 0 || before.BytesOut == 0 {
		t.Errorf("stats %+v, want bytes both ways", before)
	}
	b.SetPeers(nil)
	eventually(t, "loss noticed", func() bool { return a.Sessions()[0].State != SessionUp })
	if after := a.Stats().Peers[0]; after.BytesIn < before.BytesIn || after.BytesOut < before.BytesOut {
		t.Errorf("stats %+v after the session, %+v before: counters fell", after, before)
	}
}

// Only coordinators, and Peers that they named, make a node move bytes, once each.
func TestBenchNeedsPermission_OVL17(t *testing.T) {
	a, b := linked(t)
	if _, err := a.Bench(t.Context(), b.id, 50*time.Millisecond, BenchSend); !errors.Is(err, ErrBenchForbidden) {
		t.Fatalf("bench without a permission: %v, want %v", err, ErrBenchForbidden)
	}
	if b.Stats().Forbidden != 1 {
		t.Errorf("%d refusals counted, want 1", b.Stats().Forbidden)
	}
	if err := b.AllowBench(a.id, time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Bench(t.Context(), b.id, 50*time.Millisecond, BenchReceive); err != nil {
		t.Errorf("bench with a permission: %v", err)
	}
	if _, err := a.Bench(t.Context(), b.id, 50*time.Millisecond, BenchSend); !errors.Is(err, ErrBenchForbidden) {
		t.Errorf("second bench with one permission: %v, want %v", err, ErrBenchForbidden)
	}
	if err := b.AllowBench(a.id, time.Hour); err == nil {
		t.Error("a permission for an hour was given")
	}
	if err := b.AllowBench(ID{Cluster: testCluster, Group: "db", Slot: "c"}, time.Second); !errors.Is(err, ErrUnknownPeer) {
		t.Errorf("permission for an unknown peer: %v, want %v", err, ErrUnknownPeer)
	}
}

func TestCoordinatorsMayBench(t *testing.T) {
	w := newWorld(t)
	c := w.node(CoordinatorGroup, "coordinator-0", 1)
	b := w.node("db", "b", 2)
	connect(c, b, nil, nil)
	c.session(t, b)
	b.session(t, c)
	if _, err := c.Bench(t.Context(), b.id, 50*time.Millisecond, BenchSend); err != nil {
		t.Errorf("a coordinator's bench: %v", err)
	}
	if _, err := b.Bench(t.Context(), c.id, 50*time.Millisecond, BenchSend); !errors.Is(err, ErrBenchForbidden) {
		t.Errorf("a worker's bench with a coordinator: %v, want %v", err, ErrBenchForbidden)
	}
}

func TestBenchIsBounded_OVL17(t *testing.T) {
	a, b := linked(t)
	for _, d := range []time.Duration{0, -time.Second, MaxBenchTime + 1} {
		if _, err := a.Bench(t.Context(), b.id, d, BenchSend); err == nil {
			t.Errorf("a bench of %v was run", d)
		}
	}
	if _, err := a.Bench(t.Context(), b.id, time.Second, "sideways"); err == nil {
		t.Error("a bench in no direction was run")
	}
	if err := b.AllowBench(a.id, time.Minute); err != nil {
		t.Fatal(err)
	}
	b.benches.Take()
	if _, err := a.Bench(t.Context(), b.id, 50*time.Millisecond, BenchSend); !errors.Is(err, ErrBenchBusy) {
		t.Errorf("bench with a busy peer: %v, want %v", err, ErrBenchBusy)
	}
	b.benches.Give()
	a.benches.Take()
	if _, err := a.Bench(t.Context(), b.id, 50*time.Millisecond, BenchSend); !errors.Is(err, ErrBenchBusy) {
		t.Errorf("second bench of one node: %v, want %v", err, ErrBenchBusy)
	}
	a.benches.Give()
	if err := b.AllowBench(a.id, time.Minute); err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := a.Bench(over, b.id, MaxBenchTime, BenchSend); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("bench whose time was up: %v, want %v", err, context.DeadlineExceeded)
	}
}

// A Peer that asks for a bench and says nonsense is refused and counted.
func TestInvalidBenchIsRefused_OVL16(t *testing.T) {
	a, b := linked(t)
	s, _, err := a.linkTo(b).Used()
	if err != nil {
		t.Fatal(err)
	}
	st, err := s.OpenStream()
	if err != nil {
		t.Fatal(err)
	}
	defer st.Reset()
	_ = st.SetDeadline(time.Now().Add(15 * time.Second))
	endless := frame.BenchRequest{Direction: frame.BenchReceive, Time: time.Hour, Bytes: 1}
	if _, err := st.Write(endless.Append(frame.Header{Kind: frame.KindBench}.Append(nil))); err != nil {
		t.Fatal(err)
	}
	if code, err := frame.ReadReply(st); err != nil || code != frame.FrameInvalid {
		t.Errorf("reply %v, error %v, want %v", code, err, frame.FrameInvalid)
	}
	eventually(t, "the refusal to be counted", func() bool { return b.Stats().InvalidFrames == 1 })
}
