package adapter_test

import (
	"encoding/json"
	"testing"

	"cadre.dev/core/adapter"
)

// An unknown catch-up is absent from the text, and never false.
func TestUnknownCatchUpIsAbsent(t *testing.T) {
	text, err := json.Marshal(adapter.Member{Role: adapter.RoleNone, Liveness: adapter.Alive})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"role":"none","liveness":"alive","ready":false,"may_disrupt":false}`; string(text) != want {
		t.Fatalf("got  %s\nwant %s", text, want)
	}
}
