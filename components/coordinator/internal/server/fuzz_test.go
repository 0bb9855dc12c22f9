package server

import (
	"encoding/json"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/strictjson/strictjsontest"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// FuzzINP03_RequestWords: each word of a request that names a revision, a slot or an override
// either resolves or is rejected as the caller's fault, with any number in it.
func FuzzINP03_RequestWords(f *testing.F) {
	v := &view.View{Revisions: map[string]view.Rec[group.RevisionRecord]{
		"00112233445566778899aabbccddeeff": {Value: group.RevisionRecord{Digest: "00112233445566778899aabbccddeeff", Group: "pg", Number: 1}},
	}}
	for _, number := range strictjsontest.Numbers() {
		for _, form := range []string{"pg#", "#", "", "pg-", "0x"} {
			f.Add(form+number, int32(apiv1.OverrideKind_OVERRIDE_KIND_DRAIN))
		}
	}
	f.Add("pg#1", int32(-1))
	f.Add("00112233", int32(1<<31-1))
	f.Fuzz(func(t *testing.T, word string, kind int32) {
		for _, name := range []string{"", "pg"} {
			if one, err := findRevision(v, word, name); err == nil && one.revision != "00112233445566778899aabbccddeeff" || err != nil && status.Code(err) == codes.Unknown {
				t.Errorf("revision %q of group %q: %+v, %v", word, name, one, err)
			}
		}
		if key, err := overrideKey(apiv1.OverrideKind(kind), word); err == nil && key == "" || err != nil && status.Code(err) != codes.InvalidArgument {
			t.Errorf("mark %d of %q: key %q, %v", kind, word, key, err)
		}
	})
}

// FuzzINP03_StoredSpec: a spec, stored or in a request, is rejected or valid, and its decoder has
// no panic to contain.
func FuzzINP03_StoredSpec(f *testing.F) {
	s := strictjsontest.Filled[group.Spec]()
	text, err := json.Marshal(s)
	if err != nil {
		f.Fatal(err)
	}
	for c := range strictjsontest.Extreme(f, text) {
		f.Add(c.Text)
	}
	f.Add(specJSON(f))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := view.DecodeSpec(raw, "pg")
		if crash, is := err.(interface{ GRPCStatus() *status.Status }); is {
			t.Fatalf("the reader panics: %v", crash.GRPCStatus().Message())
		}
		if err == nil && len(s.Members()) != s.Replicas {
			t.Errorf("%d members of %d", len(s.Members()), s.Replicas)
		}
	})
}
