package keys_test

import (
	"bytes"
	"testing"

	"cadre.dev/coordinator/internal/keys"
)

// TestTOK23_EveryCoordinatorOpensAndNoOtherClusterDoes: the sealing key is one key for a cluster ID and
// a key epoch, and no other cluster has it.
func TestTOK23_EveryCoordinatorOpensAndNoOtherClusterDoes(t *testing.T) {
	public := func(r *keys.Root, epoch uint32) []byte {
		t.Helper()
		k, err := r.Sealing(t.Context(), epoch)
		if err != nil {
			t.Fatal(err)
		}
		return k.Public()
	}
	a := public(derive(t, "app", "demo"), 1)
	if !bytes.Equal(a, public(derive(t, "app", "demo"), 1)) {
		t.Error("two coordinators have two keys")
	}
	for what, other := range map[string][]byte{
		"app": public(derive(t, "other", "demo"), 1), "cluster": public(derive(t, "app", "prod"), 1),
		"cluster ID": public(deriveOf(t, "app", "demo", another), 1), "key epoch": public(derive(t, "app", "demo"), 2),
	} {
		if bytes.Equal(a, other) {
			t.Errorf("another %s has the same key", what)
		}
	}
	if _, err := derive(t, "app", "demo").Sealing(t.Context(), 0); err == nil {
		t.Error("an epoch 0")
	}
}
