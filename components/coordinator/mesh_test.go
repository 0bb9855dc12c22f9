package coordinator_test

import (
	"io"
	"net/http"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	apiv1 "cadre.dev/proto/cadre/api/v1"
	overlayv1 "cadre.dev/proto/cadre/overlay/v1"
)

// mesh compares the operators' views of the overlay from both ends of the one Link.
func (h *harness) mesh(api *operator) {
	h.t.Helper()
	for slot, peer := range map[string]string{"": "web-0", "coordinator-0": "web-0", "web-0": "coordinator-0"} {
		got, err := api.GetOverlay(api.ctx, &apiv1.GetOverlayRequest{Slot: slot})
		if err != nil || len(got.GetLinks()) != 1 {
			h.t.Errorf("mesh of %q: %v, %v", slot, got, err)
			continue
		}
		l := got.GetLinks()[0]
		if l.GetPeer() != peer || l.GetPath() != "gateway" || l.GetState() != "up" || len(l.GetChanges()) == 0 || l.GetPathReason() == "" {
			h.t.Errorf("mesh of %q: %v", slot, l)
		}
		ping, err := api.PingPeer(api.ctx, &apiv1.PingPeerRequest{Slot: slot, Peer: peer, Count: 1})
		if err != nil || len(ping.GetPing().GetSamples()) != 1 || ping.GetPing().GetSamples()[0].GetRtt().AsDuration() <= 0 {
			h.t.Errorf("ping from %q: %v, %v", slot, ping, err)
		}
		for _, way := range []overlayv1.Direction{overlayv1.Direction_DIRECTION_SEND, overlayv1.Direction_DIRECTION_RECEIVE} {
			bench, err := api.BenchPeer(api.ctx, &apiv1.BenchPeerRequest{Slot: slot, Peer: peer, Direction: way, Duration: durationpb.New(50 * time.Millisecond)})
			if err != nil || bench.GetBench().GetBytes() == 0 || bench.GetBench().GetDirection() != way {
				h.t.Errorf("bench from %q: %v, %v", slot, bench, err)
			}
		}
	}
	for page, want := range map[string]string{
		"metrics":     `cadre_overlay_path_info{carrier="tls",path="gateway",peer="web-0"} 1`,
		"v1/instance": `"member":{"known":true,"role":"leader","ready":true,"leader":"coordinator-0"}`,
	} {
		resp, err := http.Get("http://127.0.0.1:7070/" + page)
		if err != nil {
			h.t.Error(err)
			return
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || !strings.Contains(string(body), want) {
			h.t.Errorf("%s: %v; %q is missing in %.500s", page, err, want, body)
		}
	}
}
