package format

import (
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
)

func TestAgo(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 42 * time.Second: "42s", 190 * time.Second: "3m10s", 125 * time.Minute: "2h05m", 99 * time.Hour: "4d03h",
	} {
		if got := Ago(d); got != want {
			t.Errorf("Ago(%s) = %s, want %s", d, got, want)
		}
	}
}

func TestTheQuorumIsSaidOnce(t *testing.T) {
	a := rollout.Action{Holds: []rollout.Hold{{Predicate: "quorum", Message: "1 of 3 voters are healthy, 2 needed"}}, Before: operation.Before{Quorum: "1 of 3 voters are healthy, 2 needed"}}
	if got := Because(a, time.Time{}); got != "quorum: 1 of 3 voters are healthy, 2 needed" {
		t.Errorf("%q", got)
	}
	a.Holds = nil
	if got := Because(a, time.Time{}); got != a.Before.Quorum {
		t.Errorf("%q", got)
	}
}

func TestThePlatformsWordIsSaidOnce(t *testing.T) {
	for status, want := range map[string]string{
		"stopped":  "the platform says stopped",
		"starting": "the platform says stopped; platform says starting",
	} {
		if got := Why(group.InstanceStatus{Reason: "the platform says stopped", PlatformStatus: status}); got != want {
			t.Errorf("%s: %q", status, got)
		}
	}
}

func TestStepsAreSaidInOrder(t *testing.T) {
	noon := time.Unix(1000, 0)
	got := Steps(rollout.Plan{Actions: []rollout.Action{
		{Slot: "web-1", Kind: operation.Update, Class: rollout.ClassFollower, From: "a1b2c3d4e5f60718", To: "ffeeddccbbaa9988", Execute: true, Way: operation.Way{SkipDrain: true}},
		{Slot: "web-0", Kind: operation.Update, From: "a1b2c3d4e5f60718", To: "ffeeddccbbaa9988", Holds: []rollout.Hold{
			{Predicate: "max_unavailable", Message: "1 of 1 in use"}, {Predicate: "min_ready", Until: noon.Add(12 * time.Second)}}},
		{Slot: "web-2", Kind: operation.Create, To: "ffeeddccbbaa9988", Operation: "op", Phase: operation.Booting},
		{Slot: "web-3", Kind: operation.Delete, Extra: true, Execute: true},
	}}, noon)
	want := []string{
		"1. web-1: update (follower) a1b2c3d4 -> ffeeddcc, now: nothing to drain",
		"2. web-0: update a1b2c3d4 -> ffeeddcc, held: max_unavailable: 1 of 1 in use; min_ready (12s left)",
		"3. web-2: create ffeeddcc, booting",
		"4. web-3 (extra): delete, now",
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got %q, want %q", got[i], want[i])
		}
	}
}

func TestAWordIsQuotedWhereAShellWouldTakeItApart(t *testing.T) {
	for text, want := range map[string]string{
		"/srv/cloud.json": "/srv/cloud.json", "cloud=/a:b,c@sha256:0f": "cloud=/a:b,c@sha256:0f",
		"/my clouds/x": "'/my clouds/x'", "it's": `'it'\''s'`, "": "''", "~/x": "'~/x'", "a;b": "'a;b'", "$HOME": "'$HOME'", "*": "'*'", "ü": "'ü'",
	} {
		if got := Word(text); got != want {
			t.Errorf("Word(%q) = %s, want %s", text, got, want)
		}
	}
}

func TestCallersAreShortInTables(t *testing.T) {
	for by, want := range map[string]string{
		"ann (0d3c9f5e-3f1b-4a53-8f4e-2f3f1f0a7b11)": "ann (0d3c9f5e)", "0d3c9f5e-3f1b-4a53-8f4e-2f3f1f0a7b11": "0d3c9f5e-3f1b-4a53-8f4e-2f3f1f0a7b11",
		"unknown (written to Consul KV)": "unknown (written to Consul KV)", "": "",
	} {
		if got := ShortCaller(by); got != want {
			t.Errorf("caller %q is %q, want %q", by, got, want)
		}
	}
	for id, want := range map[string]string{
		"apply-0f3a5c1b8d2e4f60718293a4b5c6d7e8": "apply-0f3a5c1b", "apply-0d3c9f5e-3f1b-4a53-8f4e-2f3f1f0a7b11": "apply-0d3c9f5e", "ticket-7": "ticket-7", "": "",
	} {
		if got := ShortRequest(id); got != want {
			t.Errorf("request %q is %q, want %q", id, got, want)
		}
	}
}
