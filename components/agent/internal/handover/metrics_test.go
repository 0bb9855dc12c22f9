package handover

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"cadre.dev/agent/internal/connpause"
	"cadre.dev/agent/internal/pooler"
)

func TestFigures(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector{func() []Stats {
		return []Stats{
			{Route: "master", Group: "db", Paused: true, Connections: &connpause.Counters{
				OpenNow: 9, PausedNow: 2, Paused: 20, Resumed: 15, Expired: 1, Left: 2, Refused: 3, Failed: 4,
			}},
			{Route: "pooled", Group: "db", Problem: "it does not answer", Pooler: &pooler.Stats{
				Up: true, Paused: true, Clients: 11, Waiting: 5, Servers: 6, Starts: 7, TakenOver: 8, Reloads: 10, Pauses: 12, PausesFailed: 13, PausesExpired: 14,
			}},
		}
	}})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			t.Fatal(err)
		}
		if total := strings.HasSuffix(f.GetName(), "_total"); total != (f.GetType().String() == "COUNTER") || !strings.HasSuffix(f.GetHelp(), ".") {
			t.Errorf("%s is a %s: %s", f.GetName(), f.GetType(), f.GetHelp())
		}
	}
	for _, want := range []string{
		`served{group="db",route="master"} 1`, `served{group="db",route="pooled"} 0`,
		`paused{group="db",route="master"} 1`, `paused{group="db",route="pooled"} 0`,
		`open_connections{group="db",route="master"} 9`, `waiting_connections{group="db",route="master"} 2`,
		`paused_connections_total{group="db",route="master"} 20`,
		`paused_connections_ended_total{group="db",outcome="released",route="master"} 15`,
		`paused_connections_ended_total{group="db",outcome="expired",route="master"} 1`,
		`paused_connections_ended_total{group="db",outcome="left",route="master"} 2`,
		`refused_connections_total{group="db",route="master"} 3`, `failed_connections_total{group="db",route="master"} 4`,
		`pooler_up{group="db",route="pooled"} 1`, `pooler_paused{group="db",route="pooled"} 1`,
		`pooler_clients{group="db",route="pooled"} 11`, `pooler_waiting_clients{group="db",route="pooled"} 5`,
		`pooler_servers{group="db",route="pooled"} 6`, `pooler_starts_total{group="db",route="pooled"} 7`,
		`pooler_taken_over_total{group="db",route="pooled"} 8`, `pooler_reloads_total{group="db",route="pooled"} 10`,
		`pooler_pauses_total{group="db",route="pooled"} 12`, `pooler_failed_pauses_total{group="db",route="pooled"} 13`,
		`pooler_expired_pauses_total{group="db",route="pooled"} 14`,
	} {
		if !strings.Contains(text.String(), "\ncadre_route_"+want+"\n") {
			t.Errorf("%s is missing", want)
		}
	}
	if got := strings.Count(text.String(), "\ncadre_route_"); got != 23 {
		t.Errorf("%d figures:\n%s", got, text.String())
	}
}
