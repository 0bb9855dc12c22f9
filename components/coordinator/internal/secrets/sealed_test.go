package secrets

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/sealed"
	"cadre.dev/core/secret"
	"cadre.dev/store"
)

// sealedFor seals a value as `cadre secret set` does.
func sealedFor(t *testing.T, groupName, name string, epoch uint32, value string) store.SealedSecret {
	t.Helper()
	key, err := plain{}.Sealing(t.Context(), KeyEpoch)
	if err != nil {
		t.Fatal(err)
	}
	at := sealed.Place{ClusterID: plain{}.ClusterID(), Group: groupName, Name: name, Epoch: epoch, KeyEpoch: KeyEpoch}
	text, err := sealed.Seal(key.Public(), at, secret.FromString(value))
	if err != nil {
		t.Fatal(err)
	}
	return store.SealedSecret{Group: groupName, Name: name, Epoch: epoch, KeyEpoch: KeyEpoch, Ciphertext: text}
}

func (o *office) request(text store.SealedSecret) {
	o.t.Helper()
	raw, err := json.Marshal(store.SealRequest{SealedSecret: text, Reason: "why", By: "alice"})
	if err != nil {
		o.t.Fatal(err)
	}
	o.write(store.SealKey("web", "s3-key"), raw)
}

// settled does passes until no request is left.
func (o *office) settled() {
	o.t.Helper()
	if _, err := o.passes(3); err != nil {
		o.t.Fatal(err)
	}
	if left, _, err := o.store.List(o.t.Context(), store.SealPrefix); err != nil || len(left) != 0 {
		o.t.Errorf("requests that are left: %v, %v", left, err)
	}
}

func (o *office) value(service *Service, spec group.Spec) (string, uint32, error) {
	o.t.Helper()
	given, err := service.For(o.t.Context(), nil, spec)
	for _, one := range given.Secrets {
		if one.GetName() == "s3-key" {
			return string(one.GetValue()), one.GetEpoch(), err
		}
	}
	return "", 0, err
}

var operators = group.Secret{Name: "s3-key", Source: group.SecretOperator, Owner: "70:70", Mode: "0440"}

// TestTOK23_AnOperatorsValueIsDeliveredByItsEpoch: none before the first value, each value under its
// own epoch, and none after the declaration is gone.
func TestTOK23_AnOperatorsValueIsDeliveredByItsEpoch(t *testing.T) {
	o := newOffice(t)
	service := New(plain{}, o.store)
	spec := o.spec(operators, group.Secret{Name: "cookie"})
	o.settled()
	given, err := service.For(t.Context(), nil, spec)
	none, ok := errors.AsType[*NoValueError](err)
	if !ok || len(given.Secrets) != 1 || len(store.RecordErrors(err)) != 0 || !strings.Contains(none.Error(), "cadre secret set web/s3-key") {
		t.Fatalf("without a value: %d, %v", len(given.Secrets), err)
	}
	v, err := view.Read(t.Context(), o.store)
	if err != nil || len(v.NoValue(spec)) != 1 {
		t.Errorf("without a value the view names %v, %v", v.NoValue(spec), err)
	}
	for n, value := range []string{"first value", "second\n"} {
		epoch := uint32(n + 1)
		o.request(sealedFor(t, "web", "s3-key", epoch, value))
		o.settled()
		if got, at, err := o.value(service, spec); got != value || at != epoch || err != nil {
			t.Fatalf("epoch %d: %q of epoch %d, %v", epoch, got, at, err)
		}
		rec := o.record("web", "s3-key")
		if rec.Reason != "why" || rec.By != "alice" || rec.Sealed.Bytes != len(value) {
			t.Errorf("record: %+v", rec)
		}
		// Another coordinator opens the same value.
		if got, _, err := o.value(New(plain{}, o.store), spec); got != value || err != nil {
			t.Errorf("another coordinator: %q, %v", got, err)
		}
	}
	if v, err = view.Read(t.Context(), o.store); err != nil || len(v.NoValue(spec)) != 0 {
		t.Errorf("with a value the view names %v, %v", v.NoValue(spec), err)
	}
	// A request to rotate is no new value.
	o.write(store.RotateKey("web", "s3-key"), []byte("please"))
	o.settled()
	if left, _, _ := o.store.List(t.Context(), store.RotatePrefix); len(left) != 0 || o.record("web", "s3-key").Epoch != 2 {
		t.Errorf("after a request to rotate: %v, epoch %d", left, o.record("web", "s3-key").Epoch)
	}
	o.spec(group.Secret{Name: "cookie"})
	o.settled()
	if left, _, _ := o.store.List(t.Context(), store.SealedPrefix); len(left) != 0 {
		t.Errorf("a ciphertext is left without its declaration: %v", left)
	}
	// Neither an old ciphertext nor the epoch of an old value serves a new declaration.
	spec = o.spec(operators)
	o.settled()
	if got, _, err := o.value(service, spec); got != "" || err == nil {
		t.Errorf("declared again: %q, %v", got, err)
	}
	if got := o.record("web", "s3-key").Epoch; got != 3 {
		t.Errorf("epoch %d after the removal, want 3", got)
	}
}

// TestTOK23_NoOtherCiphertextIsTaken: an older epoch, another secret's, a damaged and an unreadable
// request leave the value in force.
func TestTOK23_NoOtherCiphertextIsTaken(t *testing.T) {
	o := newOffice(t)
	service := New(plain{}, o.store)
	spec := o.spec(operators, group.Secret{Name: "other", Source: group.SecretOperator})
	old := sealedFor(t, "web", "s3-key", 1, "old")
	o.request(old)
	o.settled()
	o.request(sealedFor(t, "web", "s3-key", 2, "new"))
	o.settled()
	moved := sealedFor(t, "web", "other", 3, "of another secret")
	moved.Name = "s3-key"
	renamed := old
	renamed.Epoch = 3
	flipped := sealedFor(t, "web", "s3-key", 3, "x")
	flipped.Ciphertext[40] ^= 1
	future := sealedFor(t, "web", "s3-key", 3, "x")
	future.KeyEpoch = KeyEpoch + 1
	huge := sealedFor(t, "web", "s3-key", 3, strings.Repeat("x", group.MaxSealedBytes+1))
	empty := sealedFor(t, "web", "s3-key", 3, "")
	for what, bad := range map[string]store.SealedSecret{
		"an older epoch": old, "an older value as the next epoch": renamed, "another secret's": moved, "a changed byte": flipped, "a later key": future, "too large": huge, "empty": empty,
		"the name of another secret": sealedFor(t, "web", "other", 1, "x"), "an epoch far ahead": sealedFor(t, "web", "s3-key", 3+maxSkip, "x"), "the last of all epochs": sealedFor(t, "web", "s3-key", 1<<32-1, "x"), "nothing": {},
	} {
		o.request(bad)
		o.settled()
		if got, at, _ := o.value(service, spec); got != "new" || at != 2 {
			t.Errorf("%s: the value in force is %q of epoch %d", what, got, at)
		}
	}
	o.write(store.SealKey("web", "s3-key"), []byte("no JSON"))
	o.write(store.SealKey("web", "undeclared"), []byte("{}"))
	o.settled()
	if got, _, _ := o.value(service, spec); got != "new" {
		t.Errorf("unreadable: %q", got)
	}
}

// TestTOK23_ARecordThatWentBackIsNotDelivered: no value is delivered after a writer of the leader's
// records puts an older ciphertext below the present epoch, or the other way round.
func TestTOK23_ARecordThatWentBackIsNotDelivered(t *testing.T) {
	o := newOffice(t)
	spec := o.spec(operators)
	old := sealedFor(t, "web", "s3-key", 1, "old")
	o.request(old)
	o.settled()
	before, err := o.store.Get(t.Context(), store.SecretKey("web", "s3-key"))
	if err != nil {
		t.Fatal(err)
	}
	o.request(sealedFor(t, "web", "s3-key", 2, "new"))
	o.settled()
	after, err := o.store.Get(t.Context(), store.SecretKey("web", "s3-key"))
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := o.store.Get(t.Context(), store.SealedKey("web", "s3-key"))
	if err != nil {
		t.Fatal(err)
	}
	put := func(text store.SealedSecret) []byte {
		raw, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	lie := old
	lie.Epoch = 2
	// The digest in the record of the epoch is edited too.
	edited := bytes.Replace(after.Value, []byte(o.record("web", "s3-key").Sealed.SHA256), []byte(sealed.Digest(old.Ciphertext)), 1)
	for what, c := range map[string]struct{ record, text []byte }{
		"the older ciphertext": {after.Value, put(old)}, "the older ciphertext under a newer epoch": {edited, put(lie)}, "the older epoch alone": {before.Value, fresh.Value},
		"no ciphertext": {after.Value, nil}, "an unreadable ciphertext": {after.Value, []byte("{")},
	} {
		o.write(store.SecretKey("web", "s3-key"), c.record)
		o.write(store.SealedKey("web", "s3-key"), c.text)
		if c.text == nil {
			if err := o.store.Commit(t.Context(), store.Op{Kind: store.OpDelete, Key: store.SealedKey("web", "s3-key")}); err != nil {
				t.Fatal(err)
			}
		}
		got, _, err := o.value(New(plain{}, o.store), spec)
		bad := store.RecordErrors(err)
		if got != "" || len(bad) != 1 || bad[0].Key != store.SealedKey("web", "s3-key") || !strings.Contains(err.Error(), "cadre secret set") {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
	o.write(store.SecretKey("web", "s3-key"), after.Value)
	o.write(store.SealedKey("web", "s3-key"), fresh.Value)
	if got, _, err := o.value(New(plain{}, o.store), spec); got != "new" || err != nil {
		t.Errorf("after the repair: %q, %v", got, err)
	}
}

// After a restore the records can have an older epoch than members: the next value is above both, so
// that members renew at once.
func TestTheNextEpochIsAboveEveryMembers(t *testing.T) {
	name := view.SecretName{Group: "web", Name: "s3-key"}
	v := &view.View{Secrets: map[view.SecretName]view.Rec[store.SecretRecord]{name: {Value: store.SecretRecord{Epoch: 2}}}}
	for reported, want := range map[uint32]uint32{0: 3, 2: 3, 3: 4, 7: 8, 1<<32 - 1: 3} {
		if got := Next(v, name, reported); got != want {
			t.Errorf("reported %d: %d, want %d", reported, got, want)
		}
	}
	o := newOffice(t)
	spec := o.spec(operators)
	o.request(sealedFor(t, "web", "s3-key", 5, "a value"))
	o.settled()
	if got, at, err := o.value(New(plain{}, o.store), spec); got != "a value" || at != 5 || err != nil {
		t.Errorf("%q of epoch %d, %v", got, at, err)
	}
}

func TestTheValuesOfAGroupAreBounded(t *testing.T) {
	o := newOffice(t)
	spec := o.spec(operators, group.Secret{Name: "a", Source: group.SecretOperator}, group.Secret{Name: "b", Source: group.SecretOperator})
	v := &view.View{Secrets: map[view.SecretName]view.Rec[store.SecretRecord]{
		{Group: "web", Name: "a"}: {Value: store.SecretRecord{Epoch: 1, Sealed: store.SealedRef{SHA256: "x", Bytes: group.MaxSealedGroupBytes - 10}}},
	}}
	text := func(n int) store.SealedSecret { return sealedFor(t, "web", "s3-key", 1, strings.Repeat("x", n)) }
	if why := Judge(v, spec, text(10)); why != "" {
		t.Error(why)
	}
	if why := Judge(v, spec, text(11)); !strings.Contains(why, "in all") {
		t.Errorf("%q", why)
	}
	short := text(10)
	short.Ciphertext = short.Ciphertext[:20]
	if why := Judge(v, spec, short); !strings.Contains(why, "empty") {
		t.Errorf("%q", why)
	}
}

// TestAnOpenedValueBelongsToItsEpoch: a record with the same digest and a later epoch gets no cached value.
func TestAnOpenedValueBelongsToItsEpoch(t *testing.T) {
	var o opened
	name := view.SecretName{Group: "web", Name: "s3-key"}
	o.put(name, openedValue{digest: "d", epoch: 3, value: secret.FromString("v")})
	for epoch, want := range map[uint32]bool{2: false, 3: true, 4: false} {
		if _, got := o.get(name, store.SecretRecord{Epoch: epoch, Sealed: store.SealedRef{SHA256: "d"}}); got != want {
			t.Errorf("epoch %d: found %t", epoch, got)
		}
	}
}
