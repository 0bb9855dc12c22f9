package secrets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/reports"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/secret"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// plain derives values that say what they are.
type plain struct{}

func (plain) Secret(_ context.Context, group, name string, epoch uint32, size int) (secret.Value, error) {
	return secret.FromString(fmt.Sprintf("%s/%s/%d/%d", group, name, epoch, size)), nil
}

func (plain) Gossip(_ context.Context, epoch uint32) (secret.Value, error) {
	return secret.FromString(fmt.Sprintf("gossip/%d", epoch)), nil
}

// quietRing is a gossip pool of one member that does what it is told.
type quietRing struct {
	held    []string
	primary string
	alive   []string
}

func (q *quietRing) Keys(_ context.Context, keys []secret.Value) (members int, holding, primary []int, err error) {
	for _, k := range keys {
		holding, primary = append(holding, 0), append(primary, 0)
		if slices.Contains(q.held, k.RevealString()) {
			holding[len(holding)-1] = 1
		}
		if q.primary == k.RevealString() {
			primary[len(primary)-1] = 1
		}
	}
	return 1, holding, primary, nil
}

func (q *quietRing) Install(_ context.Context, key secret.Value) error {
	if !slices.Contains(q.held, key.RevealString()) {
		q.held = append(q.held, key.RevealString())
	}
	return nil
}

func (q *quietRing) Use(_ context.Context, key secret.Value) error {
	if !slices.Contains(q.held, key.RevealString()) {
		return errors.New("the key is not installed")
	}
	q.primary = key.RevealString()
	return nil
}

func (q *quietRing) Remove(_ context.Context, key secret.Value) error {
	if q.primary == key.RevealString() {
		return errors.New("the key is in use")
	}
	q.held = slices.DeleteFunc(q.held, func(one string) bool { return one == key.RevealString() })
	return nil
}

func (q *quietRing) Alive(context.Context) ([]string, error) { return q.alive, nil }

// office is a leader on a store of the test's own, with a clock that it sets.
type office struct {
	*Rotator
	t     *testing.T
	store *storetest.Memory
	lease store.Lease
	ring  *quietRing
	now   time.Time
}

func newOffice(t *testing.T) *office {
	t.Helper()
	o := &office{t: t, store: storetest.NewMemory(), ring: &quietRing{held: []string{"gossip/1"}, primary: "gossip/1", alive: []string{"coordinator-0"}}, now: now}
	o.Rotator = NewRotator(RotatorConfig{
		Keys: plain{}, Keyring: o.ring, Store: o.store, Views: view.NewWatcher(o.store, slog.New(slog.DiscardHandler)), Reports: reports.New(time.Now),
		Coordinators: []string{"coordinator-0"}, Now: func() time.Time { return o.now }, Failpoint: func(string) {}, Log: slog.New(slog.DiscardHandler),
	})
	var err error
	if o.lease, err = store.AcquireBlocking(t.Context(), o.store, "coordinator-0", func(error) {}); err != nil {
		t.Fatal(err)
	}
	return o
}

func (o *office) spec(secrets ...group.Secret) group.Spec {
	o.t.Helper()
	spec := group.Spec{
		Name: "web", Platform: "phala", Replicas: 1, Secrets: secrets,
		Template: group.Template{Compose: "services:\n  a:\n    image: x/a@sha256:" + strings.Repeat("a", 64) + "\n", InstanceType: "small", OSImage: "os"},
	}
	spec.Normalize()
	text, err := json.Marshal(spec)
	if err != nil {
		o.t.Fatal(err)
	}
	o.write(store.GroupSpecKey("web"), text)
	return spec
}

func (o *office) write(key string, text []byte) {
	o.t.Helper()
	if err := o.store.Commit(o.t.Context(), store.Op{Kind: store.OpPut, Key: key, Value: text}); err != nil {
		o.t.Fatal(err)
	}
}

// passes does some passes and returns what the last one said.
func (o *office) passes(n int) (in time.Duration, err error) {
	for range n {
		in, err = o.pass(o.t.Context(), o.lease)
	}
	return in, err
}

func (o *office) record(groupName, name string) store.SecretRecord {
	o.t.Helper()
	rec, _, err := store.Read[store.SecretRecord](o.t.Context(), o.store, store.SecretKey(groupName, name))
	if err != nil {
		o.t.Fatal(err)
	}
	return rec
}

func TestSecretGetsANewValueWhenAskedAndWhenDue(t *testing.T) {
	o := newOffice(t)
	spec := o.spec(group.Secret{Name: "cookie", Rotate: "24h"}, group.Secret{Name: "other"})
	if _, err := o.passes(2); err != nil {
		t.Fatal(err)
	}
	if got := o.record("web", "cookie"); got.Epoch != 1 || !got.RotatedAt.Equal(now) {
		t.Errorf("at first: %+v", got)
	}
	// A plain KV edit asks as well as the API does.
	o.write(store.RotateKey("web", "cookie"), []byte("please"))
	o.write(store.RotateKey("web", "nobody-declares-it"), []byte("now"))
	o.now = now.Add(time.Hour)
	if _, err := o.passes(2); err != nil {
		t.Fatal(err)
	}
	if got := o.record("web", "cookie"); got.Epoch != 2 {
		t.Errorf("after a request: %+v", got)
	}
	if left, _, _ := o.store.List(t.Context(), store.RotatePrefix); len(left) != 0 {
		t.Errorf("requests that are left: %v", left)
	}
	o.now = o.now.Add(24*time.Hour - time.Nanosecond)
	if _, err := o.passes(2); err != nil {
		t.Fatal(err)
	}
	if got := o.record("web", "cookie"); got.Epoch != 2 {
		t.Errorf("before its time: %+v", got)
	}
	o.now = o.now.Add(time.Nanosecond)
	if _, err := o.passes(2); err != nil {
		t.Fatal(err)
	}
	if got := o.record("web", "cookie"); got.Epoch != 3 || got.By != bySchedule {
		t.Errorf("when its time is over: %+v", got)
	}
	if got := o.record("web", "other"); got.Epoch != 1 {
		t.Errorf("another secret: %+v", got)
	}

	service := New(plain{}, o.store)
	given, err := service.For(t.Context(), nil, spec)
	if err != nil || len(given.Secrets) != 2 || given.Secrets[0].GetEpoch() != 3 || given.Secrets[1].GetEpoch() != 1 {
		t.Fatalf("given out: %v, %v", len(given.Secrets), err)
	}
	// Removed and declared again, it goes on from where it was.
	o.spec(group.Secret{Name: "other"})
	if _, err := o.passes(2); err != nil {
		t.Fatal(err)
	}
	spec = o.spec(group.Secret{Name: "cookie"}, group.Secret{Name: "other"})
	if given, err = service.For(t.Context(), nil, spec); err != nil || given.Secrets[0].GetEpoch() != 3 {
		t.Errorf("declared again: %v", err)
	}
}

// A record that cannot be read must not bring an old value back.
func TestUnreadableEpochGivesNothingOut(t *testing.T) {
	o := newOffice(t)
	spec := o.spec(group.Secret{Name: "cookie"})
	o.write(store.SecretKey("web", "cookie"), []byte(`{"epoch":"many"}`))
	o.write(store.SecretKey(store.ClusterSecrets, store.GossipSecret), []byte(`nonsense`))
	if _, err := o.passes(3); err != nil {
		t.Logf("passes: %v", err)
	}
	for _, key := range []string{store.SecretKey("web", "cookie"), store.SecretKey(store.ClusterSecrets, store.GossipSecret)} {
		if e, err := o.store.Get(t.Context(), key); err != nil || strings.Contains(string(e.Value), `"epoch":1`) {
			t.Errorf("%s was begun anew: %s %v", key, e.Value, err)
		}
	}
	service := New(plain{}, o.store)
	for name, spec := range map[string]group.Spec{"a secret": spec, "the gossip key": {Name: "web"}} {
		if _, err := service.For(t.Context(), nil, spec); err == nil {
			t.Errorf("%s was given out", name)
		}
		// Of a View that cannot read the record either, values come with checks that fail.
		v, err := view.Read(t.Context(), o.store)
		if err != nil {
			t.Fatal(err)
		}
		given, err := service.For(t.Context(), v, spec)
		if err != nil {
			t.Fatal(err)
		}
		if err := o.store.Commit(t.Context(), given.Checks...); !errors.Is(err, store.ErrConflict) {
			t.Errorf("%s of a view: its checks say %v", name, err)
		}
	}
}

// TOK-10: a request that comes during a rotation is another rotation, since whoever
// was removed meanwhile may have been told the new key; and no key is handed out
// while somebody who is not admitted is alive.
func TestTOK10_RemovalDuringARotationAndStrangers(t *testing.T) {
	o := newOffice(t)
	o.ring.alive = append(o.ring.alive, "web-0")
	if _, err := o.passes(2); err != nil {
		t.Fatal(err)
	}
	if err := o.RotateGossip(t.Context(), "web-0 was removed"); err != nil {
		t.Fatal(err)
	}
	if _, err := o.passes(4); err != nil {
		t.Fatal(err)
	}
	if got := o.record("cluster", "gossip"); got.Step != store.RotationInstall || len(o.ring.held) != 1 {
		t.Errorf("with a stranger alive: step %q, %d keys handed out", got.Step, len(o.ring.held))
	}
	o.ring.alive = o.ring.alive[:1]
	if _, err := o.passes(1); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(o.RotateGossip(t.Context(), "another one"), o.RotateGossip(t.Context(), "and once more")); err != nil {
		t.Fatal(err)
	}
	if _, err := o.passes(12); err != nil {
		t.Fatal(err)
	}
	if got := o.record("cluster", "gossip"); got.Epoch != 3 || got.Step != store.RotationRest || o.ring.primary != "gossip/3" || len(o.ring.held) != 1 {
		t.Errorf("after both: %+v, primary %s, held %v", got, o.ring.primary, o.ring.held)
	}
	// A stranger that never goes does not stop it for ever.
	o.ring.alive = append(o.ring.alive, "ghost")
	if err := o.RotateGossip(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := o.passes(3); err != nil {
		t.Fatal(err)
	}
	o.now = o.now.Add(strangerFor)
	if _, err := o.passes(8); err != nil {
		t.Fatal(err)
	}
	if got := o.record("cluster", "gossip"); got.Epoch != 4 || got.Step != store.RotationRest {
		t.Errorf("with a stranger that stays: %+v", got)
	}
	// A day later it rotates by itself.
	o.now = o.now.Add(GossipEvery)
	o.ring.alive = o.ring.alive[:1]
	if _, err := o.passes(8); err != nil {
		t.Fatal(err)
	}
	if got := o.record("cluster", "gossip"); got.Epoch != 5 || got.By != bySchedule {
		t.Errorf("a day later: %+v", got)
	}
}

// TOK-07: what Consul answers may repeat a key; what we say does not.
func TestTOK07_KeyringErrorsHideKeys(t *testing.T) {
	key := secret.FromString("c2VjcmV0LXNlY3JldC1zZWNyZXQ=")
	err := scrub("install gossip key", fmt.Errorf("500: cannot install %s", key.RevealString()), key)
	if err == nil || strings.Contains(err.Error(), key.RevealString()) || !strings.Contains(err.Error(), secret.Redacted) {
		t.Errorf("error = %v", err)
	}
}
