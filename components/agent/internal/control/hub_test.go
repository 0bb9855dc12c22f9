package control

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"

	"cadre.dev/agent/internal/durable"
	"cadre.dev/agent/internal/latestvalue"
	"cadre.dev/overlay"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

var from = overlay.ID{Cluster: "demo", Group: "coordinator", Slot: "coordinator-0"}

func newHub(t *testing.T, dir string) *Hub {
	t.Helper()
	h, err := New(Config{
		Disk: durable.OpenDisk(dir, slog.New(slog.DiscardHandler)), Report: func() *controlv1.Report { return &controlv1.Report{} },
		ReportChanged: &latestvalue.Value[struct{}]{}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func take(t *testing.T, h *Hub, d *controlv1.Desired) {
	t.Helper()
	if err := h.acceptDesired(from, d); err != nil {
		t.Fatal(err)
	}
}

func TestNewestDesiredStateWins(t *testing.T) {
	type d struct{ term, version uint64 }
	for name, tc := range map[string]struct {
		in   []d
		want d
	}{
		"a newer version":                  {[]d{{3, 10}, {3, 11}}, d{3, 11}},
		"an older version is ignored":      {[]d{{3, 10}, {3, 9}}, d{3, 10}},
		"not known by this coordinator":    {[]d{{3, 10}, {9, 0}}, d{3, 10}},
		"a newer term":                     {[]d{{3, 10}, {4, 12}}, d{4, 12}},
		"an older term is not obeyed":      {[]d{{3, 10}, {2, 99}}, d{3, 10}},
		"a restored store counts from low": {[]d{{3, 10}, {4, 2}}, d{4, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, t.TempDir())
			for _, one := range tc.in {
				_ = h.acceptDesired(from, &controlv1.Desired{Term: one.term, Version: one.version})
			}
			got, _ := h.Desired().Get()
			if (d{got.GetTerm(), got.GetVersion()}) != tc.want {
				t.Errorf("desired = term %d version %d, want %+v", got.GetTerm(), got.GetVersion(), tc.want)
			}
		})
	}
}

// TestOneVersionMayBeTakenTwice: a coordinator sent the newest record before an earlier one.
// Another coordinator that lacks the newest record does not revert it.
func TestOneVersionMayBeTakenTwice(t *testing.T) {
	h := newHub(t, t.TempDir())
	for _, c := range []struct{ sum, epoch, want uint64 }{{100, 1, 1}, {120, 2, 2}, {120, 3, 2}, {100, 1, 2}} {
		take(t, h, &controlv1.Desired{Term: 3, Version: 60, IndexSum: c.sum, PolicyEpoch: c.epoch})
		if got, _ := h.Desired().Get(); got.GetPolicyEpoch() != c.want {
			t.Errorf("epoch %d after one of sum %d, want %d", got.GetPolicyEpoch(), c.sum, c.want)
		}
	}
	if got := h.known(); got.GetKnownIndexSum() != 120 || got.GetKnownVersion() != 60 || got.GetKnownTerm() != 3 {
		t.Errorf("known: %v", got)
	}
}

func TestOnlyNewsIsLogged(t *testing.T) {
	drain := func(attempt uint32) *controlv1.OperationOrder {
		return &controlv1.OperationOrder{OperationId: "op", Verb: controlv1.Verb_VERB_DRAIN, Attempt: attempt}
	}
	var log bytes.Buffer
	h := newHub(t, t.TempDir())
	h.cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	for i, c := range []struct {
		d    *controlv1.Desired
		news bool
	}{
		{&controlv1.Desired{ConfigJson: []byte("{}")}, true},
		{&controlv1.Desired{ConfigJson: []byte("{}")}, false},
		{&controlv1.Desired{ConfigJson: []byte("{}"), Operation: drain(1)}, true},
		{&controlv1.Desired{ConfigJson: []byte("{}"), Operation: drain(1)}, false},
		{&controlv1.Desired{ConfigJson: []byte("{}"), Operation: drain(2)}, true},
		{&controlv1.Desired{ConfigJson: []byte("[]"), Operation: drain(2)}, true},
		{&controlv1.Desired{ConfigJson: []byte("[]")}, true},
	} {
		log.Reset()
		c.d.Term, c.d.Version = 3, uint64(i+1)
		take(t, h, c.d)
		if got := log.Len() > 0; got != c.news {
			t.Errorf("desired state %d: logged %v, want %v", i, got, c.news)
		}
		if got, _ := h.Desired().Get(); got.GetVersion() != c.d.GetVersion() {
			t.Errorf("desired state %d was not taken", i)
		}
	}
}

func TestCTL06_CTL18_TermSurvivesAReboot(t *testing.T) {
	dir := t.TempDir()
	take(t, newHub(t, dir), &controlv1.Desired{Term: 7, Version: 1})
	h := newHub(t, dir)
	if h.Term() != 7 {
		t.Errorf("term after a reboot = %d, want 7", h.Term())
	}
	if err := h.acceptDesired(from, &controlv1.Desired{Term: 6, Version: 100}); !errors.Is(err, errOlder) {
		t.Errorf("desired state of term 6: %v", err)
	}
	if got, _ := h.Desired().Get(); got != nil {
		t.Errorf("desired state of term 6 was obeyed after term 7: %v", got)
	}
	take(t, h, &controlv1.Desired{Term: 7, Version: 100})
	if got, _ := h.Desired().Get(); got.GetVersion() != 100 {
		t.Errorf("desired state of the same term was not obeyed: %v", got)
	}
}

func TestCTL18_WakeOfAnOldLeaderIsRefused(t *testing.T) {
	h := newHub(t, t.TempDir())
	w := &wakeServer{hub: h}
	if _, err := w.Wake(t.Context(), &controlv1.WakeRequest{Term: 5}); err != nil {
		t.Errorf("wake of term 5 = %v, want nil", err)
	}
	if _, err := w.Wake(t.Context(), &controlv1.WakeRequest{Term: 4}); err == nil {
		t.Error("wake of term 4 after term 5 was accepted")
	}
	// A Wake's Term may be ahead of the desired state's: the last change was an earlier leader's.
	take(t, h, &controlv1.Desired{Term: 4, Version: 10})
	if got, _ := h.Desired().Get(); got.GetVersion() != 10 {
		t.Error("desired state that an earlier leader wrote last is not obeyed any more")
	}
}

func TestPeerMaps(t *testing.T) {
	coordinator := &controlv1.Peer{Group: "coordinator", Slot: "coordinator-0", Vip: "127.50.0.1", Coordinator: true}
	worker := &controlv1.Peer{Group: "web", Slot: "web-1", Vip: "127.50.1.2", Offers: []*controlv1.Port{{Protocol: controlv1.Protocol_PROTOCOL_TCP, Port: 80}}}
	for name, tc := range map[string]struct {
		peers []*controlv1.Peer
		want  int
	}{
		"good":            {[]*controlv1.Peer{coordinator, worker}, 2},
		"no coordinator":  {[]*controlv1.Peer{worker}, 0},
		"bad address":     {[]*controlv1.Peer{coordinator, {Group: "web", Slot: "web-1", Vip: "x"}}, 0},
		"bad name":        {[]*controlv1.Peer{coordinator, {Group: "web", Slot: "../x", Vip: "127.50.1.2"}}, 0},
		"port zero":       {[]*controlv1.Peer{coordinator, {Group: "web", Slot: "web-1", Vip: "127.50.1.2", Offers: []*controlv1.Port{{Protocol: controlv1.Protocol_PROTOCOL_TCP}}}}, 0},
		"no protocol":     {[]*controlv1.Peer{coordinator, {Group: "web", Slot: "web-1", Vip: "127.50.1.2", Accepts: []*controlv1.Port{{Port: 80}}}}, 0},
		"port over 65535": {[]*controlv1.Peer{coordinator, {Group: "web", Slot: "web-1", Vip: "127.50.1.2", Accepts: []*controlv1.Port{{Protocol: 1, Port: 65536 + 80}}}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, t.TempDir())
			err := h.acceptPeers(from, 1, 1, tc.peers)
			got, _ := h.Peers().Get()
			if len(got) != tc.want || (err == nil) != (tc.want > 0) {
				t.Errorf("peers = %v, %v; want %d", got, err, tc.want)
			}
		})
	}
	t.Run("older map", func(t *testing.T) {
		both, one := []*controlv1.Peer{coordinator, worker}, []*controlv1.Peer{coordinator}
		h := newHub(t, t.TempDir())
		for i, r := range []struct {
			term, version uint64
			given         []*controlv1.Peer
			want          int
		}{
			{3, 50, both, 2},
			{3, 49, one, 2},
			{2, 99, one, 2}, // of a coordinator that is behind
			{3, 50, one, 1}, // another coordinator's count may be the same
			{4, 7, both, 2}, // a restored store counts from low
			{0, 6, one, 2},  // of an earlier version, without a term
			{0, 8, one, 1},  // that one again
			{4, 0, both, 1}, // nothing is known there yet
			{4, 9, both, 2},
		} {
			if err := h.acceptPeers(from, r.term, r.version, r.given); err != nil {
				t.Fatal(err)
			}
			if got, _ := h.Peers().Get(); len(got) != r.want {
				t.Errorf("step %d: peers = %v, want %d", i, got, r.want)
			}
		}
		_, before := h.Peers().Get()
		if err := h.acceptPeers(from, 4, 10, both); err != nil {
			t.Fatal(err)
		}
		if _, after := h.Peers().Get(); after != before {
			t.Error("an equal map of another coordinator is news")
		}
	})
}

// TestAfterABadChangeTheWholePeerMapIsRequested: the old map stays in force until then.
func TestAfterABadChangeTheWholePeerMapIsRequested(t *testing.T) {
	coordinator := &controlv1.Peer{Group: "coordinator", Slot: "coordinator-0", Vip: "127.50.0.1", Coordinator: true}
	s := &session{hub: newHub(t, t.TempDir()), peer: from}
	take := func(r *controlv1.GetPeersResponse, good bool, peers int) {
		t.Helper()
		err := s.takePeers(r)
		got, _ := s.hub.Peers().Get()
		if (err == nil) != good || len(got) != peers || good != (s.mapVersion() == r.GetVersion()) {
			t.Errorf("%v: %v, %d peers in force, version %d", r, err, len(got), s.mapVersion())
		}
	}
	worker := &controlv1.Peer{Group: "web", Slot: "web-1", Vip: "127.50.1.2"}
	take(&controlv1.GetPeersResponse{Version: 3, Peers: []*controlv1.Peer{coordinator}}, true, 1)
	take(&controlv1.GetPeersResponse{Version: 4, Base: 3, Peers: []*controlv1.Peer{worker}}, true, 2)
	take(&controlv1.GetPeersResponse{Version: 5, Base: 4, Removed: []string{"coordinator-0"}}, false, 2)
	take(&controlv1.GetPeersResponse{Version: 6, Base: 5, Removed: []string{"web-1"}}, false, 2)
	take(&controlv1.GetPeersResponse{Version: 6, Peers: []*controlv1.Peer{coordinator}}, true, 1)
	take(&controlv1.GetPeersResponse{Version: 6, Base: 6}, true, 1)
}
