package selfreport

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/agent/internal/durable"
	"cadre.dev/core/rollout"
	"cadre.dev/raced/synctest"
)

// next is the process of boot that follows, with the log that it writes.
func next(dir, boot string) (*Registry, *bytes.Buffer) {
	var log bytes.Buffer
	return Open(filepath.Join(dir, fileName), boot, slog.New(slog.NewTextHandler(&log, nil))), &log
}

func put(t *testing.T, r *Registry, w Report) {
	t.Helper()
	if _, err := r.Put("queue", w); err != nil {
		t.Fatal(err)
	}
}

func healthOf(t *testing.T, r *Registry) rollout.Health {
	t.Helper()
	got := r.States()
	if len(got) != 1 || got[0].Name != "queue" {
		t.Fatalf("states: %+v", got)
	}
	return got[0].Health
}

// TestAReportOutlivesTheProcess: its time continues from its last report.
func TestAReportOutlivesTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		r, _ := next(dir, "one")
		r.Set(owned(10 * time.Second))
		put(t, r, Report{Status: Warning, Tags: []string{"b", "a"}, Output: "slow"})
		time.Sleep(6 * time.Second)
		put(t, r, Report{Status: Warning, Tags: []string{"b", "a"}, Output: "slow"})
		time.Sleep(3 * time.Second)

		r, log := next(dir, "one")
		if got := r.States(); len(got) != 0 {
			t.Errorf("before the owner of a backend is known: %+v", got)
		}
		time.Sleep(3 * time.Second)
		_, index := r.Changes().Get()
		r.Set(owned(10 * time.Second))
		got := r.States()
		if len(got) != 1 || got[0].Health != rollout.Healthy || !slices.Equal(got[0].Tags, []string{"a", "b"}) || got[0].Output != "slow" {
			t.Errorf("6 s after it was said: %+v", got)
		}
		if _, now := r.Changes().Get(); now == index {
			t.Error("a report to an earlier process is not published")
		}
		go func() { _ = r.Run(t.Context()) }()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if got := healthOf(t, r); got != rollout.Healthy {
			t.Errorf("within its time: %s", got)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := healthOf(t, r); got != rollout.Unknown {
			t.Errorf("after its time: %s", got)
		}
		if log.Len() != 0 {
			t.Errorf("log: %s", log)
		}
	})
}

func TestAWordEndsWhileNoProcessRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		r, _ := next(dir, "one")
		r.Set(owned(10 * time.Second))
		put(t, r, Report{Status: Passing})
		time.Sleep(10 * time.Second)
		r, _ = next(dir, "one")
		r.Set(owned(10 * time.Second))
		if got := healthOf(t, r); got != rollout.Unknown {
			t.Errorf("after its time: %s", got)
		}
	})
}

// TestAClockThatWasSetBack: a report counts once from the restart, and not again from the next one.
func TestAClockThatWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		later := file{Boot: "one", Reports: map[string]storedReport{"queue": {Report{Status: Passing}, time.Now().Add(time.Hour)}}}
		if err := durable.WriteJSON(filepath.Join(dir, fileName), later); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			r, _ := next(dir, "one")
			r.Set(owned(10 * time.Second))
			if got := healthOf(t, r); got != rollout.Healthy {
				t.Errorf("within its time: %s", got)
			}
			time.Sleep(6 * time.Second)
		}
		r, _ := next(dir, "one")
		r.Set(owned(10 * time.Second))
		if got := healthOf(t, r); got != rollout.Unknown {
			t.Errorf("12 s after the first restart: %s", got)
		}
	})
}

// TestRemovedReportsStayRemoved: neither another owner nor another Boot brings a report back.
func TestRemovedReportsStayRemoved(t *testing.T) {
	dir := t.TempDir()
	r, _ := next(dir, "one")
	r.Set(owned(time.Minute))
	put(t, r, Report{Status: Passing})
	if got, log := next(dir, "two"); got.before != nil || log.Len() != 0 {
		t.Errorf("another boot: %+v, %s", got.before, log)
	}
	r, _ = next(dir, "one")
	r.Set(nil)
	r.Set(owned(time.Minute))
	if got := healthOf(t, r); got != rollout.Unknown {
		t.Errorf("no workload owned it meanwhile: %s", got)
	}
	r, _ = next(dir, "one")
	r.Set(owned(time.Minute))
	if got := healthOf(t, r); got != rollout.Unknown {
		t.Errorf("no workload owned it before the process: %s", got)
	}
}

func TestUnreadableReportsAreUnknown(t *testing.T) {
	at := time.Now().Format(time.RFC3339Nano)
	report := func(more string) string {
		return `{"boot":"one","reports":{"queue":{"status":"passing","at":"` + at + `"` + more + `}}}`
	}
	for name, content := range map[string]string{
		"half":             report("")[:40],
		"empty":            "",
		"unknown field":    report(`,"weight":3`),
		"unknown field up": `{"boot":"one","reports":{},"version":2}`,
		"more":             report("") + "{}",
		"a tag":            report(`,"tags":["Not A Name"]`),
		"too long":         report(`,"output":"`+strings.Repeat("x", MaxOutput+1)+`"`) + "\n",
		"large":            report("") + strings.Repeat(" ", limit),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, fileName)
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			r, log := next(dir, "one")
			r.Set(owned(time.Minute))
			if got := healthOf(t, r); got != rollout.Unknown || !strings.Contains(log.String(), path) {
				t.Errorf("%s, log %q", got, log)
			}
			put(t, r, Report{Status: Passing})
			r, _ = next(dir, "one")
			r.Set(owned(time.Minute))
			if got := healthOf(t, r); got != rollout.Healthy {
				t.Errorf("said again, after a restart: %s", got)
			}
		})
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, fileName), []byte(report("")), 0o600); err != nil {
		t.Fatal(err)
	}
	r, _ := next(dir, "one")
	r.Set(owned(time.Minute))
	if got := healthOf(t, r); got != rollout.Healthy {
		t.Errorf("the word that the others spoil: %s", got)
	}
}

// TestTheLongestWordsAreKept: as many as a group has routes, each as long as it may be.
func TestTheLongestWordsAreKept(t *testing.T) {
	reports := file{Boot: strings.Repeat("b", 64), Reports: map[string]storedReport{}}
	for i := range 32 {
		w := Report{Status: Critical, Output: strings.Repeat("\x01", MaxOutput)}
		for range MaxTags {
			w.Tags = append(w.Tags, strings.Repeat("t", MaxTag))
		}
		reports.Reports[strings.Repeat("q", 38)+string(rune('a'+i%26))+string(rune('a'+i/26))] = storedReport{w, time.Now()}
	}
	if data, err := json.Marshal(reports); err != nil || len(data) >= limit || len(reports.Reports) != 32 {
		t.Errorf("%d reports of %d bytes, at most %d are read, %v", len(reports.Reports), len(data), limit, err)
	}
}

// TestReportsThatCannotBeSaved are accepted all the same, and the failure is logged once.
func TestReportsThatCannotBeSaved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	r, log := next(dir, "one")
	r.Set(owned(time.Minute))
	for range 3 {
		put(t, r, Report{Status: Passing})
	}
	if got := healthOf(t, r); got != rollout.Healthy || strings.Count(log.String(), "are not saved") != 1 {
		t.Errorf("%s, log %q", got, log)
	}
}
