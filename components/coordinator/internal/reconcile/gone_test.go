package reconcile

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

type noTokens struct{}

func (noTokens) Retire(context.Context, string, ...string) error { return nil }
func (noTokens) StrayOperators(context.Context, func(context.Context) (map[string]bool, error)) (int, error) {
	return 0, nil
}

func (noTokens) Sweep(context.Context) (tokens.Swept, error) {
	return tokens.Swept{}, nil
}

// remains are the records about Slots, and a leader that sweeps them.
type remains struct {
	*storetest.Memory
	t     *testing.T
	now   time.Time
	lease store.Lease
}

func newRemains(t *testing.T) *remains {
	m := &remains{Memory: storetest.NewMemory(), t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	var err error
	if m.lease, err = m.Acquire(t.Context(), "coordinator-0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.lease.Release(context.Background()) })
	return m
}

func (m *remains) commit(ops ...store.Op) {
	m.t.Helper()
	if err := m.Commit(m.t.Context(), ops...); err != nil {
		m.t.Fatal(err)
	}
}

func (m *remains) put(key string, value any) {
	m.t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		m.t.Fatal(err)
	}
	m.commit(store.Op{Kind: store.OpPut, Key: key, Value: text})
}

// slot writes the records that an admitted Slot leaves; the session holds its lease.
func (m *remains) slot(slot string) (session string) {
	m.t.Helper()
	d := policy.Decisions{}.Append(slot, policy.DecisionEntry{At: m.now, What: policy.DecidedAdmit, BootID: "b"})
	m.put(store.DecisionsKey(slot), d)
	m.put(store.RefusalKey(slot), policy.Refusal{Slot: slot, At: m.now})
	session, err := m.CreateSession(m.t.Context(), slot, 10*time.Second)
	if err != nil {
		m.t.Fatal(err)
	}
	lease, err := json.Marshal(store.BootLease{Slot: slot, BootID: "b"})
	if err != nil {
		m.t.Fatal(err)
	}
	m.commit(store.Op{Kind: store.OpLock, Key: store.BootLeaseKey(slot), Value: lease, Session: session})
	return session
}

func (m *remains) end(session string) {
	m.t.Helper()
	if err := m.DestroySession(m.t.Context(), session); err != nil {
		m.t.Fatal(err)
	}
}

// swept are the keys that the leader's sweep removed entirely.
func (m *remains) swept() []string {
	m.t.Helper()
	before := m.keys()
	r := New(Config{Store: m, Tokens: noTokens{}, Now: func() time.Time { return m.now }, Log: slog.New(slog.DiscardHandler)})
	if err := r.sweep(m.t.Context(), m.lease); err != nil {
		m.t.Fatal(err)
	}
	after := m.keys()
	return slices.DeleteFunc(before, func(key string) bool { return slices.Contains(after, key) })
}

func (m *remains) keys() (out []string) {
	m.t.Helper()
	entries, _, err := m.List(m.t.Context(), "")
	if err != nil {
		m.t.Fatal(err)
	}
	for _, e := range entries {
		out = append(out, e.Key)
	}
	return out
}

func (m *remains) want(when string, keys ...string) {
	m.t.Helper()
	if got := m.swept(); !slices.Equal(got, keys) {
		m.t.Errorf("%s: swept %s, want %s", when, strings.Join(got, " "), strings.Join(keys, " "))
	}
}

func TestRecordsOfARemovedSlotExpire(t *testing.T) {
	m := newRemains(t)
	session := m.slot("pg-0")
	m.put(store.SlotKey("pg", "pg-0"), group.SlotRecord{Group: "pg", Slot: "pg-0"})
	m.now = m.now.Add(2 * decidedKept)
	m.end(session)
	m.want("while the slot is there")

	m = newRemains(t)
	m.end(m.slot("pg-0"))
	m.put(store.SlotKey("pg", "pg-0"), group.SlotRecord{Group: "pg", Slot: "pg-0"})
	m.commit(store.Op{Kind: store.OpDelete, Key: store.DecisionsKey("pg-0")})
	m.want("while the slot is there and somebody removed its decisions")

	m = newRemains(t)
	session = m.slot("pg-0")
	m.now = m.now.Add(decidedKept)
	m.want("within the time")
	m.now = m.now.Add(time.Second)
	m.want("while a boot holds the lease", store.DecisionsKey("pg-0"), store.RefusalKey("pg-0"))
	m.end(session)
	m.want("once nobody does", store.BootLeaseKey("pg-0"))

	m = newRemains(t)
	m.end(m.slot("pg-0"))
	m.now = m.now.Add(decidedKept + time.Second)
	m.end(m.slot("pg-1")) // the last decision is recent
	m.want("all at once, and of that slot alone", store.DecisionsKey("pg-0"), store.BootLeaseKey("pg-0"), store.RefusalKey("pg-0"))
}

func TestNothingGoesWhileTheSlotMayBeThere(t *testing.T) {
	for _, key := range []string{store.SlotKey("pg", "pg-0"), store.SlotPolicyKey("pg-0"), store.AdmissionKey("pg-0"), store.SlotKey("web", "web-9")} {
		m := newRemains(t)
		m.end(m.slot("pg-0"))
		m.now = m.now.Add(2 * decidedKept)
		m.put(key, map[string]bool{"from_a_later_version": true})
		m.want("with an unreadable " + key)
	}
	for key, value := range map[string]any{
		store.SlotPolicyKey("pg-0"): policy.SlotPolicy{Group: "pg", Slot: "pg-0"},
		store.AdmissionKey("pg-0"):  policy.Admission{Group: "pg", Slot: "pg-0"},
	} {
		m := newRemains(t)
		m.end(m.slot("pg-0"))
		m.now = m.now.Add(2 * decidedKept)
		m.put(key, value)
		m.want("with " + key)
	}
	m := newRemains(t)
	m.end(m.slot("pg-0"))
	m.now = m.now.Add(2 * decidedKept)
	m.put(store.DecisionsKey("pg-0"), map[string]bool{"from_a_later_version": true})
	m.want("with decisions that do not say how old they are", store.RefusalKey("pg-0"))
}
