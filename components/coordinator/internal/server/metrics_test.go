package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// newMetricsAPI has the groups of newOverlayAPI, a figure for each, and agents that answer, except
// pg-1.
func newMetricsAPI(t *testing.T) (*overlayAPI, *metricsServer) {
	t.Helper()
	m := newOverlayAPI(t)
	registry := prometheus.NewRegistry()
	slots := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "cadre_x_slots", Help: "h"}, []string{"group"})
	peers := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "cadre_x_peers", Help: "h"}, []string{"peer"})
	leader := prometheus.NewGauge(prometheus.GaugeOpts{Name: "cadre_x_leader", Help: "h"})
	registry.MustRegister(slots, peers, leader)
	slots.WithLabelValues("pg").Set(3)
	slots.WithLabelValues("web").Set(1)
	peers.WithLabelValues("coordinator-1").Set(1)
	peers.WithLabelValues("web-0").Set(1)
	m.cfg.Metrics = Metrics{
		Gather: registry.Gather, Connected: func() []string { return []string{"pg-0", "pg-1", "web-0"} },
		Agent: func(_ context.Context, slot string) ([]byte, error) {
			if slot == "pg-1" {
				return nil, status.Error(codes.FailedPrecondition, "AGENT_SILENT: no answer")
			}
			return []byte("up 1\n"), nil
		},
	}
	return m, newMetricsServer(m.Server)
}

func TestFiguresAreThoseOfReadableGroups(t *testing.T) {
	m, served := newMetricsAPI(t)
	for _, c := range []struct {
		who, token  string
		connected   []string
		has, hasNot []string
	}{
		{"operator", operatorToken, []string{"pg-0", "pg-1", "web-0"}, []string{`{group="web"} 1`, `{group="pg"} 3`, `{peer="web-0"} 1`, "cadre_x_leader 0"}, nil},
		{"reader of pg", m.readsPG, []string{"pg-0", "pg-1"}, []string{`{group="pg"} 3`, `{peer="coordinator-1"} 1`, "cadre_x_leader 0"}, []string{"web"}},
	} {
		out, err := served.GetMetrics(as(t.Context(), c.token), &apiv1.GetMetricsRequest{})
		if err != nil {
			t.Fatalf("%s: %v", c.who, err)
		}
		text := string(out.GetNodes()[0].GetText())
		for _, want := range c.has {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %s in %s", c.who, want, text)
			}
		}
		for _, not := range c.hasNot {
			if strings.Contains(text, not) {
				t.Errorf("%s reads %s in %s", c.who, not, text)
			}
		}
		if !slices.Equal(out.GetConnected(), c.connected) || out.GetSlot() != m.cfg.Slot {
			t.Errorf("%s: %s has agents %v, want %v", c.who, out.GetSlot(), out.GetConnected(), c.connected)
		}
	}
	if _, err := served.GetMetrics(as(t.Context(), "00000000-0000-4000-8000-000000000000"), &apiv1.GetMetricsRequest{}); status.Code(err) != codes.PermissionDenied && status.Code(err) != codes.Unauthenticated {
		t.Errorf("an unknown token: %v", err)
	}
}

func TestFiguresOfAgents(t *testing.T) {
	m, served := newMetricsAPI(t)
	ctx := as(t.Context(), m.readsPG)
	out, err := served.GetMetrics(ctx, &apiv1.GetMetricsRequest{Slots: []string{"pg-1", "pg-0"}})
	if err != nil {
		t.Fatal(err)
	}
	if one, other := out.GetNodes()[0], out.GetNodes()[1]; one.GetSlot() != "pg-1" || !strings.Contains(one.GetError(), "AGENT_SILENT") || string(other.GetText()) != "up 1\n" {
		t.Errorf("answered %v", out)
	}
	many := make([]string, maxMetricsSlots+1)
	for i := range many {
		many[i] = fmt.Sprintf("pg-%d", i)
	}
	for _, c := range []struct {
		slots []string
		code  codes.Code
		says  string
	}{
		{[]string{"web-0"}, codes.PermissionDenied, "web-0"},
		{[]string{"pg-0", "coordinator-1"}, codes.InvalidArgument, "coordinator-1"},
		{[]string{"../spec"}, codes.PermissionDenied, "slots"},
		{many, codes.InvalidArgument, "at most 16"},
	} {
		if _, err := served.GetMetrics(ctx, &apiv1.GetMetricsRequest{Slots: c.slots}); status.Code(err) != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v, want %v with %q", c.slots, err, c.code, c.says)
		}
	}
}

// A text that is too large is absent, and leaves the answers of the others.
func TestFiguresOfAFaultyAgent(t *testing.T) {
	m, served := newMetricsAPI(t)
	m.cfg.Metrics.Agent = func(_ context.Context, slot string) ([]byte, error) {
		return make([]byte, map[string]int{"pg-0": maxMetricsText + 1}[slot]), nil
	}
	out, err := served.GetMetrics(as(t.Context(), operatorToken), &apiv1.GetMetricsRequest{Slots: []string{"pg-0", "pg-1"}})
	if err != nil || !strings.Contains(out.GetNodes()[0].GetError(), "METRICS_TOO_LARGE") || out.GetNodes()[1].GetError() != "" {
		t.Errorf("%v, %v", out, err)
	}
}
