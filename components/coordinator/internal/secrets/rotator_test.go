package secrets

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/sealed"
	"cadre.dev/core/secret"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// plain derives values that contain their own names.
type plain struct{}

func (plain) Secret(_ context.Context, group, name string, epoch uint32, size int) (secret.Value, error) {
	return secret.FromString(fmt.Sprintf("%s/%s/%d/%d", group, name, epoch, size)), nil
}

func (plain) Gossip(_ context.Context, epoch uint32) (secret.Value, error) {
	return secret.FromString(fmt.Sprintf("gossip/%d", epoch)), nil
}

func (plain) Sealing(_ context.Context, epoch uint32) (sealed.Key, error) {
	return sealed.NewKey(secret.New(bytes.Repeat([]byte{byte(epoch)}, sealed.KeySize)))
}

func (plain) ClusterID() string { return strings.Repeat("0f", 16) }

// quietRing is a gossip pool of one member that obeys every call.
type quietRing struct {
	held    []string
	primary string
	asked   int  // number of requests for its keys
	silent  bool // it does not answer these requests
}

func (q *quietRing) Keys(_ context.Context, keys []secret.Value) (Keyrings, error) {
	q.asked++
	if q.silent {
		return Keyrings{}, errors.New("1/1 nodes reported failure")
	}
	out := Keyrings{Members: 1}
	others := slices.Clone(q.held)
	for _, k := range keys {
		holding, primary := 0, 0
		if slices.Contains(q.held, k.RevealString()) {
			holding = 1
		}
		if q.primary == k.RevealString() {
			primary = 1
		}
		out.Holding, out.Primary = append(out.Holding, holding), append(out.Primary, primary)
		others = slices.DeleteFunc(others, func(one string) bool { return one == k.RevealString() })
	}
	for _, one := range others {
		out.Others = append(out.Others, secret.FromString(one))
	}
	return out, nil
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

// office is a leader on the test's own store, with a clock that the test sets.
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
	o := &office{t: t, store: storetest.NewMemory(), ring: &quietRing{held: []string{"gossip/1"}, primary: "gossip/1"}, now: now}
	o.Rotator = NewRotator(RotatorConfig{
		Keys: plain{}, Keyring: o.ring, Store: o.store, Views: view.NewWatcher(o.store, slog.New(slog.DiscardHandler)),
		Now: func() time.Time { return o.now }, Failpoint: func(string) {}, Log: slog.New(slog.DiscardHandler),
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

// passes does some passes and returns the result of the last one.
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
	// A plain KV edit works like a request of the API.
	o.write(store.RotateKey("web", "cookie"), []byte("please"))
	o.write(store.RotateKey("web", "undeclared"), []byte("now"))
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
	// After a removal and a new declaration the epoch continues.
	o.spec(group.Secret{Name: "other"})
	if _, err := o.passes(2); err != nil {
		t.Fatal(err)
	}
	spec = o.spec(group.Secret{Name: "cookie"}, group.Secret{Name: "other"})
	if given, err = service.For(t.Context(), nil, spec); err != nil || given.Secrets[0].GetEpoch() != 3 {
		t.Errorf("declared again: %v", err)
	}
}

// An unreadable record must not restore an old value.
func TestUnreadableEpochGivesNothingOut(t *testing.T) {
	o := newOffice(t)
	spec := o.spec(group.Secret{Name: "cookie"}, group.Secret{Name: "other"})
	o.write(store.SecretKey("web", "cookie"), []byte(`{"epoch":"many"}`))
	o.write(store.SecretKey(store.ClusterSecrets, store.GossipSecret), []byte(`nonsense`))
	if _, err := o.passes(3); err != nil {
		t.Logf("passes: %v", err)
	}
	for _, key := range []string{store.SecretKey("web", "cookie"), store.SecretKey(store.ClusterSecrets, store.GossipSecret)} {
		if e, err := o.store.Get(t.Context(), key); err != nil || strings.Contains(string(e.Value), `"epoch":1`) {
			t.Errorf("%s was begun again: %s %v", key, e.Value, err)
		}
	}
	service := New(plain{}, o.store)
	// The other secrets are delivered, and the error names the record.
	given, err := service.For(t.Context(), nil, spec)
	if bad := store.RecordErrors(err); len(bad) != 1 || bad[0].Key != store.SecretKey("web", "cookie") || len(given.Secrets) != 1 || given.Secrets[0].GetName() != "other" {
		t.Errorf("given out: %d, %v", len(given.Secrets), err)
	}
	// A View that cannot read the records either gives values whose checks fail.
	v, err := view.Read(t.Context(), o.store)
	if err != nil {
		t.Fatal(err)
	}
	given, err = service.For(t.Context(), v, spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.store.Commit(t.Context(), given.Checks...); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a secret of a view: its checks say %v", err)
	}
	o.write(store.SecretKey("web", "cookie"), []byte(`{"group":"web","name":"another","epoch":7,"rotated_at":"2026-01-01T00:00:00Z"}`))
	if given, err := service.For(t.Context(), nil, spec); len(store.RecordErrors(err)) != 1 || len(given.Secrets) != 1 {
		t.Errorf("a record of another secret: %d, %v", len(given.Secrets), err)
	}
	// An unused unreadable record causes no error.
	if given, err := service.For(t.Context(), nil, o.spec(group.Secret{Name: "other"})); err != nil || len(given.Secrets) != 1 {
		t.Errorf("without it: %d, %v", len(given.Secrets), err)
	}
	// A store that does not answer is no bad record: nothing is known.
	away := New(plain{}, silent{o.store})
	if given, err := away.For(t.Context(), nil, spec); err == nil || len(given.Secrets) != 0 || len(store.RecordErrors(err)) != 0 {
		t.Errorf("without a store: %d, %v", len(given.Secrets), err)
	}
}

// silent is an unreadable store.
type silent struct{ store.Store }

func (silent) List(context.Context, string) ([]store.Entry, uint64, error) {
	return nil, 0, errors.New("no leader")
}

// ask writes a request to rotate into the records.
func (o *office) ask() {
	o.t.Helper()
	o.write(store.RotateKey(store.ClusterSecrets, store.GossipSecret), []byte("please"))
}

// TOK-10: a request during a rotation causes another rotation, because its caller wants a key that
// was not in use before the request.
func TestTOK10_ARequestDuringARotationIsAnother(t *testing.T) {
	o := newOffice(t)
	if _, err := o.passes(2); err != nil {
		t.Fatal(err)
	}
	o.ask()
	if _, err := o.passes(1); err != nil {
		t.Fatal(err)
	}
	if got := o.record("cluster", "gossip"); got.Step != store.RotationInstall {
		t.Errorf("asked for: step %q", got.Step)
	}
	o.ask()
	o.ask()
	if _, err := o.passes(12); err != nil {
		t.Fatal(err)
	}
	if got := o.record("cluster", "gossip"); got.Epoch != 3 || got.Step != store.RotationRest || o.ring.primary != "gossip/3" || len(o.ring.held) != 1 {
		t.Errorf("after both: %+v, primary %s, held %v", got, o.ring.primary, o.ring.held)
	}
	// A day later it rotates automatically.
	o.now = o.now.Add(GossipEvery)
	if _, err := o.passes(8); err != nil {
		t.Fatal(err)
	}
	if got := o.record("cluster", "gossip"); got.Epoch != 4 || got.By != bySchedule {
		t.Errorf("a day later: %+v", got)
	}
}

// TOK-10: a leader does not trust that the pool matches the record at rest: once in its Term it
// compares and corrects the pool.
func TestTOK10_EachTermComparesTheKeyringWithTheEpochInForce(t *testing.T) {
	o := newOffice(t)
	next := func() {
		t.Helper()
		if err := o.lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		var err error
		if o.lease, err = store.AcquireBlocking(t.Context(), o.store, "coordinator-0", func(error) {}); err != nil {
			t.Fatal(err)
		}
	}
	passes := func(n int) {
		t.Helper()
		if _, err := o.passes(n); err != nil {
			t.Fatal(err)
		}
	}
	asRecorded := func() bool {
		rec := o.record("cluster", "gossip")
		return rec.Epoch == 1 && rec.Step == store.RotationRest && rec.StepSince.IsZero() && o.ring.primary == "gossip/1" && slices.Equal(o.ring.held, []string{"gossip/1"})
	}
	passes(20)
	if !asRecorded() || o.ring.asked != 1 {
		t.Errorf("a pool that is as recorded was asked %d times, want once; %+v", o.ring.asked, o.ring)
	}
	for name, ring := range map[string]quietRing{
		"a key of long ago that a member came back with": {held: []string{"gossip/1", "gossip/0"}, primary: "gossip/1"},
		"an unknown key":              {held: []string{"gossip/1", "by hand"}, primary: "gossip/1"},
		"a later leader's key in use": {held: []string{"gossip/1", "gossip/2"}, primary: "gossip/2"},
		"not even the key in force":   {held: []string{"gossip/2"}, primary: "gossip/2"},
	} {
		o.ring.held, o.ring.primary = ring.held, ring.primary
		next()
		passes(1)
		if rec := o.record("cluster", "gossip"); rec.Step != store.RotationRemove || rec.Epoch != 1 {
			t.Errorf("%s: the step is not recorded: %+v", name, rec)
		}
		passes(4)
		if !asRecorded() {
			t.Errorf("%s: record %+v, the ring holds %v and sends with %s", name, o.record("cluster", "gossip"), o.ring.held, o.ring.primary)
		}
	}
	// Members that do not answer stop nothing and do not cause constant requests.
	next()
	o.ring.silent, o.ring.asked = true, 0
	passes(20)
	if o.ring.asked != 1 {
		t.Errorf("a silent pool was asked %d times at once", o.ring.asked)
	}
	o.ring.silent, o.ring.held = false, []string{"gossip/1", "gossip/0"}
	o.now = o.now.Add(resync)
	passes(5)
	if !asRecorded() {
		t.Errorf("when they answer again: %v", o.ring.held)
	}
}

// TOK-07: Consul's errors may contain a key; our errors do not.
func TestTOK07_KeyringErrorsHideKeys(t *testing.T) {
	key := secret.FromString("c2VjcmV0LXNlY3JldC1zZWNyZXQ=")
	err := scrub("install gossip key", fmt.Errorf("500: cannot install %s", key.RevealString()), key)
	if err == nil || strings.Contains(err.Error(), key.RevealString()) || !strings.Contains(err.Error(), secret.Redacted) {
		t.Errorf("error = %v", err)
	}
}
