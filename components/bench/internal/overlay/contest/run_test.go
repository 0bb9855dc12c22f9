package contest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"testing"
	"time"

	"cadre.dev/bench/internal/overlay/place"
	"cadre.dev/bench/internal/overlay/roles"
	"cadre.dev/lab/worker"
)

// TestMain lets the test binary be the workers of the measurements too.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == worker.Argument {
		if err := roles.Serve(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "worker:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func options(t *testing.T, only string) Options {
	t.Helper()
	log, err := os.CreateTemp(t.TempDir(), "log")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			if said, err := os.ReadFile(log.Name()); err == nil {
				t.Logf("workers said:\n%s", said)
			}
		}
		_ = log.Close()
	})
	return Options{
		Rounds: 1, Window: 200 * time.Millisecond, Only: regexp.MustCompile(only),
		Rendezvous: "/nonexistent", Log: log, Progress: t.Output(),
	}
}

func TestSmoke(t *testing.T) {
	if why := place.Why(); why != "" {
		t.Skip(why)
	}
	r, err := Run(t.Context(), options(t, "^("+KernelTCP+"|"+OursStream+")$"))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Err(); err != nil {
		t.Fatalf("%v: %v", err, r.Failures)
	}
	if len(r.Contenders) != 2 || len(r.Figures) != 0 {
		t.Fatalf("contenders %+v, figures %+v", r.Contenders, r.Figures)
	}
	for _, c := range r.Contenders {
		if c.Mbps <= 0 || c.Mbps8 <= 0 || c.CPU <= 0 || c.Ping <= 0 || c.Loaded <= 0 || c.Ping > c.Ping99 {
			t.Errorf("odd row %+v", c)
		}
	}
	var out bytes.Buffer
	r.Print(&out)
	t.Log(out.String())
}

func TestWithoutRendezvousNothingIsInvented(t *testing.T) {
	if why := place.Why(); why != "" {
		t.Skip(why)
	}
	r, err := Run(t.Context(), options(t, "^first_byte_ms$"))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Figures) != 0 || len(r.NotMeasured) != 1 || r.Err() != nil {
		t.Errorf("figures %v, not measured %v, error %v", r.Figures, r.NotMeasured, r.Err())
	}
}

func TestOnlyChoosesWhatAFigureCompares(t *testing.T) {
	m := &meeting{o: options(t, "^stream_carrier_vs_tls$")}
	m.choose()
	if len(m.contenders) != 2 || m.contenders[0].Name != TLS || m.contenders[1].Name != OursStreamS {
		t.Errorf("contenders %v", m.contenders)
	}
	if len(m.workloads[TLS]) != 1 || !m.workloads[TLS][OneStream] {
		t.Errorf("workloads %v", m.workloads)
	}
}

func TestNothingOfThatName(t *testing.T) {
	if _, err := Run(t.Context(), options(t, "^no such figure$")); err == nil {
		t.Error("no error")
	}
}

func TestInterruptEndsARun(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("interrupted")
	cancel(why)
	if _, err := Run(ctx, options(t, "^idle_peer_kib$")); !errors.Is(err, why) {
		t.Errorf("got %v, want %v", err, why)
	}
}
