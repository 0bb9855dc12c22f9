package command

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestMetricsOnce(t *testing.T) {
	b := newBench(t)
	b.SetMetrics("# TYPE cadre_leader gauge\ncadre_leader 1\n", map[string]string{"pg-0": "# TYPE cadre_agent_admitted gauge\ncadre_agent_admitted 1\n", "pg-1": ""})
	code, out := b.run("metrics", "--once")
	for _, want := range []string{
		`cadre_leader{cluster="demo",instance="coordinator-0"} 1`, `cadre_agent_admitted{cluster="demo",instance="pg-0"} 1`,
		`cadre_scrape_up{cluster="demo",instance="pg-1"} 0`, `cadre_scrape_errors{cluster="demo"} 1`,
		"problem: pg-1: AGENT_SILENT",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
	if code != ExitOK {
		t.Errorf("code %d", code)
	}
	b.Fail("GetMetrics", status.Error(codes.PermissionDenied, "no right"))
	if code, out := b.run("metrics", "--once"); code != ExitError || !strings.Contains(out, "problem: coordinator: get figures: no right") || !strings.Contains(out, "no coordinator gave any") {
		t.Errorf("%d: %s", code, out)
	}
}

func TestMetricsRefusesOpenAddresses(t *testing.T) {
	newBench(t)
	for _, c := range []struct{ args, says string }{
		{"--listen 0.0.0.0:9464", "--allow-remote"}, {"--listen 127.0.0.1", "HOST:PORT"}, {"--timeout 10ms", "--timeout"},
	} {
		if code, out := run(t, append([]string{"metrics"}, strings.Fields(c.args)...)...); code != ExitUsage || !strings.Contains(out, c.says) {
			t.Errorf("%s: %d: %s", c.args, code, out)
		}
	}
}
