package admission

import (
	"errors"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/policy"
	"cadre.dev/store"
)

// TestABootIsNotEndedByARestore: a backup has no admissions, and its decisions may be older than
// the Boot. Neither a Boot of the backup nor a later one learns that it has lost the Slot, because
// it would stop its workload. Both prove themselves again. An evicted Boot stays evicted.
func TestABootIsNotEndedByARestore(t *testing.T) {
	h := newHarness(t)
	b := h.boot(composeText, h.seed)
	b.mustAdmit()
	for _, key := range []string{store.AdmissionKey("pg-0"), store.BootLeaseKey("pg-0")} {
		entry, err := h.store.Get(t.Context(), key)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err == nil {
			err = h.store.Commit(t.Context(), store.Op{Kind: store.OpDeleteCAS, Key: key, Index: entry.Index})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	later := strings.Repeat("0", 64)
	if d, _, err := ended(t.Context(), h.store, "pg", "pg-0", b.id()); err != nil || d.Code != policy.CodeIncarnationStale {
		t.Errorf("without a restore: %+v, %v", d, err)
	}
	h.write(store.RestoredKey, store.Restored{At: h.now().Add(time.Minute), State: 1})
	for name, boot := range map[string]string{"a boot of the backup": b.id(), "a later boot": later} {
		if _, _, err := ended(t.Context(), h.store, "pg", "pg-0", boot); !errors.Is(err, errForgotten) {
			t.Errorf("%s: %v", name, err)
		}
	}
	h.ahead.Store(int64(2 * time.Minute))
	b.mustAdmit()
	if d, _, err := ended(t.Context(), h.store, "pg", "pg-0", b.id()); err != nil || !d.Allowed {
		t.Errorf("the boot proved itself again: %+v, %v", d, err)
	}
	if d, _, err := ended(t.Context(), h.store, "pg", "pg-0", later); err != nil || d.Code != policy.CodeIncarnationStale {
		t.Errorf("another boot: %+v, %v", d, err)
	}
	if err := h.service.Evict(t.Context(), "pg-0", policy.CodePeerRevoked, "revoked"); err != nil {
		t.Fatal(err)
	}
	h.write(store.RestoredKey, store.Restored{At: h.now().Add(time.Minute), State: 1})
	if d, _, err := ended(t.Context(), h.store, "pg", "pg-0", b.id()); err != nil || d.Code != policy.CodePeerRevoked {
		t.Errorf("an evicted boot: %+v, %v", d, err)
	}
}
