package overlaystatus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"cadre.dev/overlay"
	controlv1 "cadre.dev/proto/cadre/control/v1"
	overlayv1 "cadre.dev/proto/cadre/overlay/v1"
)

var start = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func id(group, slot string) overlay.ID {
	return overlay.ID{Cluster: "demo", Group: group, Slot: slot}
}

// fakeNode has two Peers and returns the test's answers.
type fakeNode struct {
	err     error // of Ping and Bench
	allowed []overlay.ID
}

func (f *fakeNode) Sessions() []overlay.SessionInfo {
	return []overlay.SessionInfo{
		{Peer: id(overlay.CoordinatorGroup, "coordinator-0"), State: overlay.SessionBackOff, Path: overlay.PathNone, LastError: "no route"},
		{
			Peer: id("web", "web-1"), BootID: "b1", State: overlay.SessionUp, Since: start,
			Path: overlay.PathDirectUDP, PathReason: "direct-udp is preferred to gateway", PathSince: start.Add(time.Second),
			Local: "10.0.0.1:7", Remote: "10.0.0.2:8", Carrier: "quic", Standby: []overlay.PathKind{overlay.PathGateway},
			RTT: 12 * time.Millisecond, BytesIn: 10, BytesOut: 20, PacketsSent: 5, PacketsLost: 1, Streams: 3,
			PathChanges: 2, Searches: 4, Searching: true,
			Candidates: []overlay.Candidate{{Kind: overlay.PathDirectUDP, Remote: "10.0.0.2:8", RTT: 12 * time.Millisecond, Loss: 0.25, InUse: true}},
		},
	}
}

func (f *fakeNode) PathChanges(peer overlay.ID) []overlay.PathChange {
	if peer.Slot != "web-1" {
		return nil
	}
	return []overlay.PathChange{{At: start, Peer: peer, From: overlay.PathNone, To: overlay.PathGateway, Reason: "the first path that came up"}}
}

func (f *fakeNode) Stats() overlay.Stats {
	return overlay.Stats{NotAdmitted: 9, Peers: []overlay.PeerStats{{
		Peer: id("web", "web-1"), BytesIn: 100, BytesOut: 200, PacketsSent: 50, PacketsLost: 2, RefusedTCP: 1,
		Ports: []overlay.PortStats{{Port: overlay.PortRef{Protocol: overlay.TCP, Port: 5432}, Outbound: true, BytesIn: 7, BytesOut: 8, Streams: 3}},
	}}}
}

func (f *fakeNode) Ping(_ context.Context, peer overlay.ID, count int) (overlay.PingResult, error) {
	if f.err != nil {
		return overlay.PingResult{}, f.err
	}
	res := overlay.PingResult{Peer: peer, Samples: []overlay.PingSample{{Path: overlay.PathNone, Err: errors.New("lost")}}}
	for range count - 1 {
		res.Samples = append(res.Samples, overlay.PingSample{RTT: time.Millisecond, Path: overlay.PathDirectUDP, Carrier: "quic"})
	}
	return res, nil
}

func (f *fakeNode) Bench(_ context.Context, peer overlay.ID, d time.Duration, direction overlay.BenchDirection) (overlay.BenchResult, error) {
	return overlay.BenchResult{Peer: peer, Direction: direction, Bytes: 1000, Took: d, Path: overlay.PathGateway, Carrier: "tls", RTT: time.Millisecond}, f.err
}

func (f *fakeNode) AllowBench(peer overlay.ID, _ time.Duration) error {
	f.allowed = append(f.allowed, peer)
	return nil
}

func serve(f *fakeNode) Server { return Server{Node: func() Node { return f }} }

func TestStatusIsComplete(t *testing.T) {
	s := serve(&fakeNode{})
	all, err := s.OverlayStatus(t.Context(), &controlv1.OverlayStatusRequest{})
	if err != nil || len(all.GetLinks()) != 2 || !all.GetLinks()[0].GetCoordinator() || all.GetLinks()[0].GetLastError() != "no route" {
		t.Fatalf("status of all: %v, %v", all, err)
	}
	one, err := s.OverlayStatus(t.Context(), &controlv1.OverlayStatusRequest{Peer: "web-1"})
	if err != nil || len(one.GetLinks()) != 1 {
		t.Fatalf("status of one: %v, %v", one, err)
	}
	got := fmt.Sprint(one.GetLinks()[0])
	for _, want := range []string{
		"web-1", "b1", "up", "direct-udp", "is preferred to", "10.0.0.1:7", "10.0.0.2:8", "quic", "gateway", "bytes_in:10", "bytes_out:20",
		"packets_sent:5", "packets_lost:1", "streams:3", "path_changes:2", "searches:4", "searching:true", "0.25", "in_use:true", "the first path",
	} {
		if !strings.Contains(strings.ReplaceAll(got, "  ", " "), want) {
			t.Errorf("link %s: %q is missing", got, want)
		}
	}
}

func TestErrorsNameTheirCause(t *testing.T) {
	second := durationpb.New(time.Second)
	for name, c := range map[string]struct {
		call func(Server) error
		node *fakeNode
		code codes.Code
		says string
	}{
		"status of an unknown peer": {func(s Server) error {
			_, err := s.OverlayStatus(t.Context(), &controlv1.OverlayStatusRequest{Peer: "web-9"})
			return err
		}, &fakeNode{}, codes.NotFound, `no peer "web-9"; known peers: coordinator-0, web-1`},
		"ping of an unknown peer": {func(s Server) error {
			_, err := s.OverlayPing(t.Context(), &controlv1.OverlayPingRequest{Peer: "x", Count: 1})
			return err
		}, &fakeNode{}, codes.NotFound, "known peers"},
		"no round trips": {func(s Server) error {
			_, err := s.OverlayPing(t.Context(), &controlv1.OverlayPingRequest{Peer: "web-1"})
			return err
		}, &fakeNode{}, codes.InvalidArgument, "want 1 to 50"},
		"no session": {func(s Server) error {
			_, err := s.OverlayPing(t.Context(), &controlv1.OverlayPingRequest{Peer: "web-1", Count: 1})
			return err
		}, &fakeNode{err: overlay.ErrNoSession}, codes.FailedPrecondition, "NO_SESSION"},
		"bench without a direction": {func(s Server) error {
			_, err := s.OverlayBench(t.Context(), &controlv1.OverlayBenchRequest{Peer: "web-1", Duration: second})
			return err
		}, &fakeNode{}, codes.InvalidArgument, "direction"},
		"bench for too long": {func(s Server) error {
			_, err := s.OverlayBench(t.Context(), &controlv1.OverlayBenchRequest{Peer: "web-1", Direction: 1, Duration: durationpb.New(time.Hour)})
			return err
		}, &fakeNode{}, codes.InvalidArgument, "want 1ms to 10s"},
		"bench that is not allowed": {func(s Server) error {
			_, err := s.OverlayBench(t.Context(), &controlv1.OverlayBenchRequest{Peer: "web-1", Direction: 1, Duration: second})
			return err
		}, &fakeNode{err: overlay.ErrBenchForbidden}, codes.FailedPrecondition, "BENCH_FORBIDDEN"},
		"bench during another": {func(s Server) error {
			_, err := s.OverlayBench(t.Context(), &controlv1.OverlayBenchRequest{Peer: "web-1", Direction: 2, Duration: second})
			return err
		}, &fakeNode{err: overlay.ErrBenchBusy}, codes.ResourceExhausted, "BENCH_BUSY"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.call(serve(c.node))
			if status.Code(err) != c.code || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %v and %q", err, c.code, c.says)
			}
		})
	}
	if _, err := (Server{}).OverlayStatus(t.Context(), &controlv1.OverlayStatusRequest{}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("status before there is a node: %v", err)
	}
}

func TestMeasurements(t *testing.T) {
	node := &fakeNode{}
	s := serve(node)
	ping, err := s.OverlayPing(t.Context(), &controlv1.OverlayPingRequest{Peer: "web-1", Count: 3})
	samples := ping.GetPing().GetSamples()
	if err != nil || len(samples) != 3 || samples[0].GetError() != "lost" || samples[0].GetRtt() != nil || samples[1].GetRtt().AsDuration() != time.Millisecond {
		t.Errorf("ping: %v, %v", ping, err)
	}
	bench, err := s.OverlayBench(t.Context(), &controlv1.OverlayBenchRequest{
		Peer: "web-1", Direction: overlayv1.Direction_DIRECTION_RECEIVE, Duration: durationpb.New(time.Second),
	})
	b := bench.GetBench()
	if err != nil || b.GetBytes() != 1000 || b.GetDirection() != overlayv1.Direction_DIRECTION_RECEIVE || b.GetTook().AsDuration() != time.Second || b.GetLoadedRtt() != nil {
		t.Errorf("bench: %v, %v", bench, err)
	}
	if _, err := s.OverlayAllowBench(t.Context(), &controlv1.OverlayAllowBenchRequest{Peer: "web-1"}); err != nil || !slices.Equal(node.allowed, []overlay.ID{id("web", "web-1")}) {
		t.Errorf("allowed %v, %v", node.allowed, err)
	}
}

// An agent's report about its network reaches operators' terminals.
func TestAnswersAreBounded_OVL16(t *testing.T) {
	long := strings.Repeat("é", 20_000)
	links := []*overlayv1.Link{{
		Peer: long, LastError: long, Standby: []string{long},
		Candidates: []*overlayv1.Candidate{{Remote: long}}, Changes: []*overlayv1.PathChange{{Reason: long}},
	}}
	if err := BoundLinks(links); err != nil {
		t.Fatal(err)
	}
	l := links[0]
	ping := &overlayv1.Ping{Samples: []*overlayv1.PingSample{{Error: long}}}
	if err := BoundPing(ping); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{l.GetPeer(), l.GetLastError(), l.GetStandby()[0], l.GetCandidates()[0].GetRemote(), l.GetChanges()[0].GetReason(), ping.GetSamples()[0].GetError()} {
		if len(text) > maxText+3 || !utf8.ValidString(text) {
			t.Errorf("a text of %d bytes is left", len(text))
		}
	}
	for name, err := range map[string]error{
		"many links":       BoundLinks(make([]*overlayv1.Link, maxLinks+1)),
		"many standbys":    BoundLinks([]*overlayv1.Link{{Standby: make([]string, maxList+1)}}),
		"many candidates":  BoundLinks([]*overlayv1.Link{{Candidates: make([]*overlayv1.Candidate, maxList+1)}}),
		"many changes":     BoundLinks([]*overlayv1.Link{{Changes: make([]*overlayv1.PathChange, maxList+1)}}),
		"many round trips": BoundPing(&overlayv1.Ping{Samples: make([]*overlayv1.PingSample, maxList+1)}),
	} {
		if err == nil {
			t.Errorf("%s: passed", name)
		}
	}
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	var node Node
	registry.MustRegister(NewCollector(func() Node { return node }))
	if families, err := registry.Gather(); err != nil || len(families) != 0 {
		t.Errorf("before there is a node: %v, %v", families, err)
	}
	node = &fakeNode{}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			got[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	// Labels are in the order of their names.
	for name, want := range map[string]float64{
		"cadre_overlay_session_up web-1": 1, "cadre_overlay_session_up coordinator-0": 0,
		"cadre_overlay_path_info quic direct-udp web-1": 1, "cadre_overlay_rtt_seconds web-1": 0.012,
		"cadre_overlay_path_changes_total web-1": 2, "cadre_overlay_path_searches_total web-1": 4, "cadre_overlay_open_streams web-1": 3,
		"cadre_overlay_bytes_total in web-1": 100, "cadre_overlay_packets_sent_total web-1": 50, "cadre_overlay_packets_lost_total web-1": 2,
		"cadre_overlay_refused_total web-1 tcp": 1, "cadre_overlay_not_admitted_total": 9,
		"cadre_overlay_port_bytes_total out web-1 5432 tcp theirs": 8, "cadre_overlay_port_uses_total web-1 5432 tcp theirs": 3,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s = %v (%v), want %v", name, v, ok, want)
		}
	}
}
