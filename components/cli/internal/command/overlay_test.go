package command

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cadre.dev/client/clienttest"
	overlayv1 "cadre.dev/proto/cadre/overlay/v1"
)

func ago(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(noon.Add(-d)) }

func ms(v float64) *durationpb.Duration {
	return durationpb.New(time.Duration(v * float64(time.Millisecond)))
}

// troubledMesh has a Link of every kind.
func troubledOverlay() clienttest.Overlay {
	return clienttest.Overlay{
		Links: map[string][]*overlayv1.Link{
			"coordinator-0": {},
			"worker-0": {
				{
					Peer: "coordinator-0", Group: "coordinator", Coordinator: true, State: "up", Since: ago(26 * time.Hour), BootId: "c0ffee",
					Path: "gateway", PathReason: "the first path that came up", PathSince: ago(26 * time.Hour), Carrier: "tls",
					Local: "10.0.0.2:51820", Remote: "203.0.113.9:443", Rtt: ms(41.37), BytesIn: 3 << 20, BytesOut: 700, PathChanges: 1,
				},
				{
					Peer: "worker-1", Group: "worker", State: "up", Since: ago(3 * time.Hour), BootId: "beef00112233",
					Path: "direct-udp", PathReason: "direct-udp is preferred to gateway", PathSince: ago(4 * time.Minute), Carrier: "quic",
					Local: "0.0.0.0:40000", Remote: "198.51.100.7:40001", Standby: []string{"gateway"}, Rtt: ms(8.914),
					BytesIn: 5 << 30, BytesOut: 12 << 20, PacketsSent: 100_000, PacketsLost: 120, Streams: 7, PathChanges: 3, Searches: 9, Searching: true,
					Candidates: []*overlayv1.Candidate{
						{Path: "direct-udp", Remote: "198.51.100.7:40001", Rtt: ms(8.9), Loss: 0.0213, InUse: true},
						{Path: "relay", Remote: "203.0.113.4:3478", Rtt: ms(1012)},
					},
					LastError: "session closed: no bytes for 8s",
					Changes: []*overlayv1.PathChange{
						{At: ago(3 * time.Hour), From: "none", To: "gateway", Reason: "the first path that came up"},
						{At: ago(5 * time.Minute), From: "gateway", To: "none", Reason: "no session is left"},
						{At: ago(4 * time.Minute), From: "none", To: "direct-udp", Reason: "the first path that came up"},
					},
				},
				{Peer: "worker-2", Group: "worker", State: "back-off", Since: ago(12 * time.Second), Path: "none", LastError: "dial gateway: connection refused"},
				{Peer: "worker-3", Group: "worker", State: "absent", Path: "none"},
			},
		},
		Ping: &overlayv1.Ping{Samples: []*overlayv1.PingSample{
			{Rtt: ms(8.9), Path: "direct-udp", Carrier: "quic"}, {Path: "direct-udp", Carrier: "quic", Error: "no answer within 2s"},
			{Rtt: ms(41), Path: "gateway", Carrier: "tls"},
		}},
		Bench: &overlayv1.Bench{Bytes: 512 << 20, Path: "direct-udp", Carrier: "quic", Rtt: ms(8.9), LoadedRtt: ms(23.44), Moved: true},
	}
}

func TestOverlayPictures(t *testing.T) {
	b := newBench(t)
	b.SetOverlay(troubledOverlay())
	for name, args := range map[string][]string{
		"overlay_status":       {"overlay", "status", "worker-0"},
		"overlay_status_empty": {"overlay", "status"},
		"overlay_status_json":  {"overlay", "status", "worker-0", "-o", "json"},
		"overlay_path":         {"overlay", "path", "worker-1", "--from", "worker-0"},
		"overlay_path_none":    {"overlay", "path", "worker-2", "--from", "worker-0"},
		"overlay_ping":         {"overlay", "ping", "worker-1", "--from", "worker-0", "--count", "3"},
		"overlay_bench":        {"overlay", "bench", "worker-1", "--from", "worker-0", "--for", "5s"},
		"overlay_help":         {"overlay", "bench", "--help"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out := b.run(args...)
			if code != ExitOK {
				t.Errorf("exit %d", code)
			}
			golden(t, name, out)
		})
	}
}

func TestOverlayExitCodes(t *testing.T) {
	b := newBench(t)
	m := troubledOverlay()
	m.Ping = &overlayv1.Ping{Samples: []*overlayv1.PingSample{{Path: "none", Error: "no session with the peer"}}}
	b.SetOverlay(m)
	b.Fail("BenchPeer", status.Error(codes.PermissionDenied, "a bench loads the network"))
	for _, c := range []struct {
		want int
		args []string
		says string
	}{
		{ExitNotFound, []string{"overlay", "status", "nobody-0"}, "no such slot"},
		{ExitNotFound, []string{"overlay", "path", "nobody-0", "--from", "worker-0"}, "PEER_UNKNOWN"},
		{ExitUsage, []string{"overlay", "ping"}, "cadre overlay ping --help"},
		{ExitUsage, []string{"overlay", "ping", "worker-1", "--count", "0"}, "want 1 to 50"},
		{ExitUsage, []string{"overlay", "bench", "worker-1", "--for", "1m"}, "want up to 10s"},
		{ExitUsage, []string{"overlay", "bench", "worker-1", "--direction", "up"}, "both, send or receive"},
		{ExitUsage, []string{"overlay", "frob"}, "not a command of `cadre overlay`"},
		{ExitError, []string{"overlay", "ping", "worker-1", "--from", "worker-0"}, "0 of 1 answered"},
		{ExitRefused, []string{"overlay", "bench", "worker-1", "--from", "worker-0"}, "loads the network"},
	} {
		if code, out := b.run(c.args...); code != c.want || !strings.Contains(out, c.says) {
			t.Errorf("%v: exit %d, want %d and %q:\n%s", c.args, code, c.want, c.says, out)
		}
	}
}
