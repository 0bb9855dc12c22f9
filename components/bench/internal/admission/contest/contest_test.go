package contest

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cadre.dev/bench/internal/admission/server"
	"cadre.dev/bench/internal/agents"
	"cadre.dev/bench/internal/world"
	"cadre.dev/lab/worker"
	"cadre.dev/store"
	"cadre.dev/store/localconsul"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == worker.Argument {
		if err := worker.Serve(context.Background(), os.Stdin, os.Stdout, map[string]worker.Role{server.Name: server.Role}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// TestEverythingIsMeasured: a few agents, a real Consul, all figures.
func TestEverythingIsMeasured(t *testing.T) {
	program, err := localconsul.Binary()
	if err != nil {
		t.Skip(err)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	report, err := Run(t.Context(), Options{
		Rounds: 1, Agents: 10, SlowQuote: 50 * time.Millisecond, StormLimit: 2 * time.Minute, Consul: program, Log: log, Progress: t.Output(),
	})
	if err != nil {
		said, _ := os.ReadFile(log.Name())
		t.Fatalf("%v\n%s", err, said[max(0, len(said)-4096):])
	}
	var names []string
	for _, f := range report.Figures {
		names = append(names, f.Name)
		if f.Name == "storm_1000_refused_or_lost" {
			if f.Value != 0 || f.Detail["nonces_spent"] < 20 {
				t.Errorf("%+v", f)
			}
		} else if f.Value <= 0 || len(f.Samples) != 1 {
			t.Errorf("%+v", f)
		}
	}
	want := "admissions_per_core_second admission_cpu_ms_p50 storm_1000_s storm_1000_refused_or_lost verify_only_vs_go_tdx_guest renewals_per_core_second"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("figures %s, want %s", got, want)
	}
}

// TestANonceThatWasUsedTwiceIsFound in each of the ways that it would show.
func TestANonceThatWasUsedTwiceIsFound(t *testing.T) {
	one, two, none := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32), []byte(nil)
	agent := func(slot, boot string, spent []byte, given ...[]byte) *agents.Agent {
		return &agents.Agent{Slot: world.Slot{Name: slot}, BootID: boot, Nonces: given, Spent: spent}
	}
	key := hex.EncodeToString
	for name, c := range map[string]struct {
		agents []*agents.Agent
		record map[string]store.SpentNonce
		want   string
	}{
		"all is well": {
			[]*agents.Agent{agent("a-0", "a", one, one), agent("b-0", "b", none, two)},
			map[string]store.SpentNonce{key(one): {Slot: "a-0", BootID: "a"}}, "",
		},
		"given twice": {[]*agents.Agent{agent("a-0", "a", none, one), agent("b-0", "b", none, one)}, nil, "was given to a-0 and to b-0"},
		"spent by another": {
			[]*agents.Agent{agent("a-0", "a", one, one)},
			map[string]store.SpentNonce{key(one): {Slot: "a-0", BootID: "x"}}, "spent by boot x",
		},
		"not spent":   {[]*agents.Agent{agent("a-0", "a", one, one)}, nil, "on record"},
		"never given": {[]*agents.Agent{agent("a-0", "a", none, one)}, map[string]store.SpentNonce{key(two): {Slot: "a-0"}}, "was spent for a-0"},
	} {
		_, err := compareNonces(c.agents, c.record)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
