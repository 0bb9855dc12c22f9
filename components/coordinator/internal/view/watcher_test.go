package view

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/raced/synctest"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// settled waits until the Watcher has seen everything.
func settled() {
	time.Sleep(2 * time.Second)
	synctest.Wait()
}

func put(t testing.TB, s store.Store, key, text string) {
	t.Helper()
	if err := s.Commit(t.Context(), store.Op{Kind: store.OpPut, Key: key, Value: []byte(text)}); err != nil {
		t.Fatal(err)
	}
}

// samples are records of two groups; the name of one is a prefix of the other's.
func samples(name string, n int) map[string]string {
	slot := group.SlotName(name, n)
	text := func(format string, a ...any) string { return fmt.Sprintf(format, a...) }
	return map[string]string{
		store.GroupStatusKey(name):                                text(`{"group":%q,"replicas":%d}`, name, n),
		store.SlotStatusKey(name, slot):                           text(`{"group":%q,"slot":%q,"state":"x"}`, name, slot),
		store.SlotKey(name, slot):                                 text(`{"group":%q,"slot":%q,"ordinal":%d,"assigned":"r-%s-%d"}`, name, slot, n, name, n),
		store.AddressesKey(name):                                  text(`{"group":%q,"blocks":[{"first":-1,"net":"127.40.%d.0/24"}]}`, name, n),
		store.OperationKey(text("%s-1-abc.%d.%s", name, n, slot)): text(`{"id":"%s-1-abc.%d.%s","group":%q,"slot":%q,"phase":"draining"}`, name, n, slot, name, slot),
		store.OperationKey(slot + ".other-1"):                     text(`{"id":"%s.other-1","group":%q,"slot":%q,"phase":"done"}`, slot, name, slot),
		store.RolloutKey(text("%s-%d-abc", name, n)):              text(`{"id":"%s-%d-abc","group":%q}`, name, n, name),
		store.SlotPolicyKey(slot):                                 text(`{"group":%q,"slot":%q}`, name, slot),
		store.GroupPolicyKey(name):                                text(`{"group":%q}`, name),
		store.AdmissionKey(slot):                                  text(`{"group":%q,"slot":%q,"boot_id":"%d"}`, name, slot, n),
		store.RefusalKey(slot):                                    text(`{"slot":%q}`, slot),
		store.ProofKey(slot):                                      text(`{"group":%q,"slot":%q}`, name, slot),
		store.OverrideKey(store.OverridePause, name):              `{}`,
		store.QueueKey(text("q-%s-%d", name, n)):                  text(`{"id":"q-%s-%d","kind":"restart","slot":%q}`, name, n, slot),
		store.RevisionKey(text("r-%s-%d", name, n)):               text(`{"digest":"r-%s-%d","group":%q}`, name, n, name),
		store.RouteKey(text("%s-r%d", name, n)):                   text(`{"route":"%s-r%d","vip":"127.10.1.%d","group":%q}`, name, n, 2*n+len(name), name),
		store.ServiceMeshKey(name):                                text(`{"group":%q,"proxies":[{"id":"x-sidecar-proxy","service":"x","backend":"x","port":2000%d,"local_port":80}]}`, name, n),
		store.SecretKey(name, "key"):                              text(`{"group":%q,"name":"key","epoch":%d}`, name, n+1),
	}
}

// comparable returns the parts that a Watcher's View and a View of all records have in common.
func comparable(v *View) View {
	out := *v
	out.Index, out.Nonces, out.decisions, out.others = 0, nil, nil, nil
	out.badOf[kindNonces], out.badOf[kindDecisions] = nil, nil
	out.collectBad()
	slices.SortFunc(out.Bad, func(a, b *store.RecordError) int { return compare(a.Key, b.Key) })
	out.badOf = [kindCount][]*store.RecordError{}
	out.said, out.turn, out.own, out.slots, out.lacked = [kindCount]*memo{}, 0, "", nil, false
	return out
}

func compare(a, b string) int {
	if a < b {
		return -1
	}
	if a > b {
		return 1
	}
	return 0
}

// TestTheWatchersViewMatchesTheRecords: this holds after any changes, and after a restore of an
// older state.
func TestTheWatchersViewMatchesTheRecords(t *testing.T) {
	for seed := range uint64(12) {
		watching(t, func(w *Watcher, s *storetest.Memory, _ func()) {
			r := rand.New(rand.NewPCG(seed, 7))
			var all []string
			texts := map[string]string{}
			for _, name := range []string{"web", "web-a"} {
				for n := range 3 {
					maps.Copy(texts, samples(name, n))
				}
			}
			all = slices.Sorted(maps.Keys(texts))
			var kept *storetest.Snapshot
			before := map[string]*View{}
			for range 60 {
				for range 1 + r.IntN(6) {
					key := all[r.IntN(len(all))]
					switch r.IntN(8) {
					case 0:
						if err := s.Commit(t.Context(), store.Op{Kind: store.OpDelete, Key: key}); err != nil {
							t.Fatal(err)
						}
					case 1:
						put(t, s, key, `{"odd":1}`)
					case 2:
						put(t, s, store.OverrideKey(store.OverrideFreeze, store.Everywhere), fmt.Sprintf(`{"reason":"%d"}`, r.IntN(3)))
					default:
						put(t, s, key, texts[key])
					}
				}
				switch {
				case r.IntN(15) == 0 && kept != nil:
					s.Restore(*kept)
				case r.IntN(6) == 0:
					now := s.Snapshot()
					kept = &now
				}
				settled()
				got, _ := w.Latest()
				want, err := Read(t.Context(), s)
				if err != nil {
					t.Fatal(err)
				}
				if a, b := comparable(got), comparable(want); !reflect.DeepEqual(a, b) {
					t.Fatalf("seed %d: got\n%+v\nwant\n%+v", seed, a, b)
				}
				for _, name := range []string{"web", "web-a"} {
					one, err := ReadGroup(t.Context(), s, name, got, before[name])
					if err != nil {
						t.Fatal(err)
					}
					sameGroup(t, name, one, want)
					anew, err := ReadGroup(t.Context(), s, name, got, nil)
					if a, b := comparable(one), comparable(anew); err != nil || !reflect.DeepEqual(a, b) {
						t.Fatalf("seed %d: read with the last View: %v\n%+v\nwant\n%+v", seed, err, a, b)
					}
					before[name] = one.Own()
				}
			}
		})
	}
}

// sameGroup compares a group's own View with that of all.
func sameGroup(t *testing.T, name string, got, want *View) {
	t.Helper()
	if (got.Unusable(name) == nil) != (want.Unusable(name) == nil) {
		t.Fatalf("%s: unusable %v, want %v", name, got.Unusable(name), want.Unusable(name))
	}
	for what, pair := range map[string][2]any{
		"status": {got.Statuses[name], want.Statuses[name]}, "slots": {got.SlotsOf(name), want.SlotsOf(name)}, "rollouts": {got.RolloutsOf(name), want.RolloutsOf(name)},
		"addresses": {got.Addresses[name], want.Addresses[name]}, "policy": {got.Gate.Groups[name], want.Gate.Groups[name]}, "queue": {got.Queue, want.Queue},
		"term": {got.Term, want.Term}, "overrides": {got.Overrides, want.Overrides},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Fatalf("%s of %s: got\n%+v\nwant\n%+v", what, name, pair[0], pair[1])
		}
	}
	for n := range 3 {
		slot := group.SlotName(name, n)
		if !reflect.DeepEqual(got.OperationsOf(slot), want.OperationsOf(slot)) || !reflect.DeepEqual(got.Admissions[slot], want.Admissions[slot]) || !reflect.DeepEqual(got.Policies[slot], want.Policies[slot]) {
			t.Fatalf("%s differs", slot)
		}
	}
	for digest, r := range want.Revisions {
		if r.Value.Group == name && !reflect.DeepEqual(got.Revisions[digest], r) {
			t.Fatalf("revision %s: got %+v, want %+v", digest, got.Revisions[digest], r)
		}
	}
	for slot, s := range got.Slots {
		if s.Value.Group != name {
			t.Fatalf("%s in the records of %s", slot, name)
		}
	}
}

// TestAChangeConcernsItsGroupAlone: a change of any record affects its own group, and the others
// stay shared.
func TestAChangeConcernsItsGroupAlone(t *testing.T) {
	watching(t, func(w *Watcher, s *storetest.Memory, _ func()) {
		for key, text := range samples("other", 1) {
			put(t, s, key, text)
		}
		settled()
		sub := w.Subscribe()
		defer sub.Close()
		if _, c := sub.Take(); !c.All {
			t.Error("the first look is not at everything")
		}
		for key, text := range samples("web", 1) {
			before, _ := w.Latest()
			put(t, s, key, text)
			settled()
			after, c := sub.Take()
			if _, ok := c.Groups["web"]; !ok || len(c.Groups) != 1 || c.All {
				t.Errorf("%s: %+v", key, c)
			}
			shared := 0
			for _, pair := range [][2]any{{before.Slots, after.Slots}, {before.Operations, after.Operations}, {before.Admissions, after.Admissions}, {before.Specs, after.Specs}, {before.Revisions, after.Revisions}} {
				if reflect.ValueOf(pair[0]).Pointer() == reflect.ValueOf(pair[1]).Pointer() {
					shared++
				}
			}
			if shared < 4 {
				t.Errorf("%s: %d of 5 kinds are shared with the View before", key, shared)
			}
		}
		for key, text := range map[string]string{
			store.OverrideKey(store.OverrideFreeze, store.Everywhere): `{}`, store.FloorKey(store.Everywhere): `{}`, store.ApprovalKey("r"): `{}`, store.SecretKey(store.ClusterSecrets, store.GossipSecret): `{}`,
		} {
			put(t, s, key, text)
			settled()
			if _, c := sub.Take(); !c.All {
				t.Errorf("%s: %+v", key, c)
			}
		}
		for key, text := range map[string]string{store.NonceKey("00112233445566778899aabbccddeeff"): `{}`, store.DecisionsKey("web-1"): `{}`, store.StateKey: ``} {
			if text != "" {
				put(t, s, key, text)
			}
			settled()
			if _, c := sub.Take(); c.Any() {
				t.Errorf("%s: %+v", key, c)
			}
		}
	})
}

// TestNothingIsReadWhileNothingChanges: resyncs of the watches cause no read.
func TestNothingIsReadWhileNothingChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &counted{Store: storetest.NewMemory()}
		w := NewWatcher(s, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = w.Run(ctx) }()
		settled()
		before := s.reads
		time.Sleep(rereadEvery - time.Minute)
		synctest.Wait()
		if s.reads != before {
			t.Errorf("%d reads", s.reads-before)
		}
		cancel()
		<-done
	})
}

type counted struct {
	store.Store
	reads int
}

func (c *counted) Together(ctx context.Context, what ...string) ([]store.Entry, error) {
	c.reads++
	return c.Store.Together(ctx, what...)
}

func (c *counted) List(ctx context.Context, prefix string) ([]store.Entry, uint64, error) {
	c.reads++
	return c.Store.List(ctx, prefix)
}

// BenchmarkOneChange measures one changed admission among groups of three.
func BenchmarkOneChange(b *testing.B) {
	for _, groups := range []int{100, 3000} {
		b.Run(fmt.Sprint(groups), func(b *testing.B) {
			s := storetest.NewMemory()
			for g := range groups {
				for n := range 3 {
					for key, text := range samples(fmt.Sprintf("g%d", g), n) {
						put(b, s, key, text)
					}
				}
			}
			w := NewWatcher(s, slog.New(slog.DiscardHandler))
			for _, k := range followed() {
				for _, prefix := range k.prefixes {
					w.watches[prefix] = &watch{answered: true}
				}
			}
			keep := keeper{stamps: map[kindID]map[string]stamp{}, known: map[kindID]*memo{}, floor: map[kindID]uint64{}}
			if err := w.read(b.Context(), &keep, followed()); err != nil {
				b.Fatal(err)
			}
			for n := 0; b.Loop(); n++ {
				put(b, s, store.AdmissionKey("g7-1"), fmt.Sprintf(`{"group":"g7","slot":"g7-1","boot_id":"%d"}`, n))
				if err := w.read(b.Context(), &keep, kinds[kindAdmissions:kindAdmissions+1]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestARestoredSnapshotWakesAllReaders: records of a restored snapshot are reported as changed,
// although readers have seen higher indices.
func TestARestoredSnapshotWakesAllReaders(t *testing.T) {
	key := store.SlotKey("web", "web-0")
	for name, change := range map[string]func(t *testing.T, s *storetest.Memory){
		"a record that changed since": func(t *testing.T, s *storetest.Memory) {
			put(t, s, key, `{"group":"web","slot":"web-0","ordinal":0,"vip":"127.40.0.9"}`)
		},
		"a record that went since": func(t *testing.T, s *storetest.Memory) {
			if err := s.Commit(t.Context(), store.Op{Kind: store.OpDelete, Key: key}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			watching(t, func(w *Watcher, s *storetest.Memory, _ func()) {
				put(t, s, key, `{"group":"web","slot":"web-0","ordinal":0}`)
				kept := s.Snapshot()
				change(t, s)
				put(t, s, store.SlotKey("other", "other-0"), `{"group":"other","slot":"other-0","ordinal":0}`)
				settled()
				sub := w.Subscribe()
				defer sub.Close()
				before, _ := sub.Take()
				s.Restore(kept)
				settled()
				after, c := sub.Take()
				if after.Slots["web-0"].Index >= before.Index {
					t.Fatalf("the record is of index %d, seen were %d", after.Slots["web-0"].Index, before.Index)
				}
				if !c.All && c.Groups["web"] <= before.Index {
					t.Errorf("%+v: a reader that saw index %d takes that for old", c, before.Index)
				}
			})
		})
	}
}
