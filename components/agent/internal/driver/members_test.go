package driver

import (
	"errors"
	"testing"

	"cadre.dev/core/group"
)

func change(do, slot string) group.SetChange { return changeOf(do, slot, "") }

func changeOf(do, slot, id string) group.SetChange {
	return group.SetChange{Do: group.SetVerb(do), Slot: slot, Member: id}
}

// A request fails with a clear error if the workload's set cannot be changed, or if it asks for no
// change.
func TestAnImpossibleChangeIsRefused(t *testing.T) {
	none, err := New(Config{Kind: "none", Self: "web-0"})
	if err != nil {
		t.Fatal(err)
	}
	if err := Change(t.Context(), none, change("remove", "web-1")); !errors.Is(err, ErrUnsafe) {
		t.Errorf("none: %v", err)
	}
	server, err := New(Config{Kind: "consul", Self: "consul-0"})
	if err != nil {
		t.Fatal(err)
	}
	if err := Change(t.Context(), server, change("demote", "consul-1")); !errors.Is(err, ErrUnsafe) {
		t.Errorf("demote: %v", err)
	}
	if err := Change(t.Context(), server, change("remove", "consul-0")); !errors.Is(err, ErrUnsafe) {
		t.Errorf("itself: %v", err)
	}
}
