package pooler

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cadre.dev/raced/synctest"
)

// TestLinesThatSayTheSameArePaced, whichever client they are about; the first line is logged at
// once, and the count includes every line.
func TestLinesThatSayTheSameArePaced(t *testing.T) {
	var p pacing
	start := time.Unix(1000, 0)
	wrong := func(i int) string {
		return fmt.Sprintf("C-0x55%04x: shop/app@127.0.0.1:%d pooler error: SASL authentication failed", i, 40000+i)
	}
	other := "C-0x55aa: shop/web@127.0.0.1:1 pooler error: SASL authentication failed"
	for i, step := range []struct {
		at   time.Duration
		line string
		want []saying
	}{
		{0, wrong(1), []saying{{slog.LevelWarn, wrong(1), 0}}},
		{time.Second, wrong(2), nil},
		{time.Second, other, []saying{{slog.LevelWarn, other, 0}}}, // of another user
		{2 * time.Second, wrong(3), nil},
		{sayEvery - 1, "", nil},
		{sayEvery, "", []saying{{slog.LevelWarn, wrong(3), 2}}},
		{sayEvery + time.Second, wrong(4), nil}, // the line repeats
		{2 * sayEvery, "", []saying{{slog.LevelWarn, wrong(4), 1}}},
		{3 * sayEvery, "", nil}, // it is over
		{3*sayEvery + time.Second, wrong(5), []saying{{slog.LevelWarn, wrong(5), 0}}},
	} {
		now := start.Add(step.at)
		got := p.due(now)
		if step.line != "" {
			got = append(got, p.take(now, slog.LevelWarn, step.line)...)
		}
		if !slices.Equal(got, step.want) {
			t.Errorf("step %d: %v, want %v", i, got, step.want)
		}
	}
}

func TestManyKindsOfLinesAreBounded(t *testing.T) {
	var p pacing
	now, said := time.Unix(1000, 0), 0
	for i := range 100 {
		said += len(p.take(now, slog.LevelWarn, fmt.Sprintf("user %d is unknown", i)))
	}
	if said != maxKinds {
		t.Errorf("%d are said at once, want %d", said, maxKinds)
	}
	got := p.due(now.Add(sayEvery))
	if len(got) != 1 || got[0].again != 100-maxKinds || len(p.kinds) != 0 {
		t.Errorf("then %v, with %d kinds left", got, len(p.kinds))
	}
	if !p.next().IsZero() {
		t.Error("it waits for nothing")
	}
}

// TestTheCountIsLogged also when no other line follows.
func TestTheCountIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := &Pooler{log: slog.New(slog.NewTextHandler(&out, nil))}
		in, lines := io.Pipe()
		var passing sync.WaitGroup
		passing.Go(func() { p.passLog(t.Context(), in) })
		for i := range 50 {
			_, _ = fmt.Fprintf(lines, "2026-11-24 04:05:35.297 UTC [1150] WARNING C-0x%x: shop/app@127.0.0.1:%d pooler error: no\n", i, i)
		}
		time.Sleep(sayEvery)
		synctest.Wait()
		_ = lines.Close()
		passing.Wait()
		if text := out.String(); strings.Count(text, "pgbouncer says") != 2 || !strings.Contains(text, "lines=49") {
			t.Errorf("the log:\n%s", text)
		}
	})
}
