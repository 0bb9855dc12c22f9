package agent

import (
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"cadre.dev/agent/internal/agenttest"
	"cadre.dev/core/group"
	controlv1 "cadre.dev/proto/cadre/control/v1"
	overlayv1 "cadre.dev/proto/cadre/overlay/v1"
)

// A coordinator reads the state of the overlay over a real control session.
func TestCoordinatorReadsTheOverlaysState(t *testing.T) {
	t.Parallel()
	w := agenttest.NewWorld(t)
	c := agenttest.NewCoordinator(w)
	c.Start(t)
	c.Order(&controlv1.Desired{Version: 10, Term: 3, ConfigJson: config(t, group.AgentConfig{Workload: group.Workload{Kind: "none"}})})
	a := newTestAgent(t, w)
	a.start()
	agenttest.Eventually(t, soon, "a control session", func() bool { return c.Agent() != nil })
	agent := c.Agent()

	got, err := agent.OverlayStatus(t.Context(), &controlv1.OverlayStatusRequest{})
	if err != nil || len(got.GetLinks()) != 1 {
		t.Fatalf("status: %v, %v", got, err)
	}
	l := got.GetLinks()[0]
	if l.GetPeer() != "coordinator-0" || !l.GetCoordinator() || l.GetState() != "up" || l.GetPath() != "gateway" || l.GetCarrier() != "tls" ||
		l.GetPathReason() == "" || len(l.GetChanges()) != 1 || l.GetBytesIn() == 0 {
		t.Errorf("link: %v", l)
	}
	ping, err := agent.OverlayPing(t.Context(), &controlv1.OverlayPingRequest{Peer: "coordinator-0", Count: 1})
	if err != nil || len(ping.GetPing().GetSamples()) != 1 || ping.GetPing().GetSamples()[0].GetRtt().AsDuration() <= 0 {
		t.Errorf("ping: %v, %v", ping, err)
	}
	if _, err := agent.OverlayPing(t.Context(), &controlv1.OverlayPingRequest{Peer: "web-7", Count: 1}); status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), "known peers: coordinator-0") {
		t.Errorf("ping of an unknown peer: %v", err)
	}
	bench := &controlv1.OverlayBenchRequest{Peer: "coordinator-0", Direction: overlayv1.Direction_DIRECTION_SEND, Duration: durationpb.New(50 * time.Millisecond)}
	if _, err := agent.OverlayBench(t.Context(), bench); status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "BENCH_FORBIDDEN") {
		t.Errorf("bench without permission: %v", err)
	}
	if err := c.AllowBench(); err != nil {
		t.Fatal(err)
	}
	if got, err := agent.OverlayBench(t.Context(), bench); err != nil || got.GetBench().GetBytes() == 0 || got.GetBench().GetPath() != "gateway" {
		t.Errorf("bench: %v, %v", got, err)
	}
	if _, err := agent.OverlayAllowBench(t.Context(), &controlv1.OverlayAllowBenchRequest{Peer: "coordinator-0"}); err != nil {
		t.Errorf("allow bench: %v", err)
	}
	code, body := a.call("GET", "/metrics", "")
	for _, want := range []string{
		`cadre_overlay_session_up{peer="coordinator-0"} 1`, `cadre_overlay_path_info{carrier="tls",path="gateway",peer="coordinator-0"} 1`,
		`cadre_overlay_path_changes_total{peer="coordinator-0"} 1`, `cadre_overlay_bytes_total{direction="out",peer="coordinator-0"}`,
	} {
		if code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("metrics: %d, %q is missing", code, want)
		}
	}
}

// The agent keeps sessions with coordinators and with a small own group; it makes other sessions on
// demand.
func TestWhichSessionsAnAgentKeeps(t *testing.T) {
	t.Parallel()
	w := agenttest.NewWorld(t)
	c := agenttest.NewCoordinator(w)
	boot := strings.Repeat("ab", 32)
	c.Others = []*controlv1.Peer{
		{Group: "web", Slot: "web-1", Vip: agenttest.VIP(2, 1).String(), BootId: boot},
		{Group: "db", Slot: "db-0", Vip: agenttest.VIP(3, 0).String(), BootId: boot},
	}
	c.Start(t)
	c.Order(&controlv1.Desired{Version: 10, Term: 3, ConfigJson: config(t, group.AgentConfig{Workload: group.Workload{Kind: "none"}})})
	a := newTestAgent(t, w)
	a.start()
	agenttest.Eventually(t, soon, "a control session", func() bool { return c.Agent() != nil })
	got, err := c.Agent().OverlayStatus(t.Context(), &controlv1.OverlayStatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	states := map[string]string{}
	for _, l := range got.GetLinks() {
		states[l.GetPeer()] = l.GetState()
	}
	// web-1 has no place where it could be reached.
	want := map[string]string{"coordinator-0": "up", "web-1": "absent", "db-0": "idle"}
	if !maps.Equal(states, want) {
		t.Errorf("links %v, want %v", states, want)
	}
}

// A coordinator reads the same figures that the agent serves in its CVM.
func TestCoordinatorReadsTheAgentsFigures(t *testing.T) {
	t.Parallel()
	w := agenttest.NewWorld(t)
	c := agenttest.NewCoordinator(w)
	c.Start(t)
	c.Order(&controlv1.Desired{Version: 10, Term: 3, ConfigJson: config(t, group.AgentConfig{Workload: group.Workload{Kind: "none"}})})
	a := newTestAgent(t, w)
	a.start()
	agenttest.Eventually(t, soon, "a control session", func() bool { return c.Agent() != nil })
	got, err := c.Agent().GetMetrics(t.Context(), &controlv1.GetMetricsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# TYPE cadre_agent_admitted gauge\ncadre_agent_admitted 1\n", `cadre_overlay_session_up{peer="coordinator-0"} 1`} {
		if !strings.Contains(string(got.GetText()), want) {
			t.Errorf("the figures lack %q:\n%s", want, got.GetText())
		}
	}
}
