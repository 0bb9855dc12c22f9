package admission

import (
	"testing"
)

// TestCTL06_ABootReportsTheRecordsThatItSawAtAdmission: the term and state that a Boot has seen
// count once its evidence proves its Slot. Both also count when the records refuse the Boot,
// because the records may have been rolled back.
func TestCTL06_ABootReportsTheRecordsThatItSawAtAdmission(t *testing.T) {
	h := newHarness(t)
	var saw []uint64
	h.service.cfg.Saw = func(slot string, term, state uint64) {
		if slot != "pg-0" {
			t.Errorf("slot %q", slot)
		}
		saw = append(saw, term, state)
	}
	ask := func(b *boot, spoil bool) error {
		b.connect()
		c, err := b.challenge()
		if err != nil {
			t.Fatal(err)
		}
		req := b.request(c, nil)
		if req.SeenTerm, req.SeenState = 7, 99; spoil {
			req.Evidence.Quote[100] ^= 1
		}
		_, err = b.contact.Admit(t.Context(), req)
		return err
	}
	first := h.boot(composeText, h.seed)
	if err := ask(first, true); err == nil || len(saw) != 0 {
		t.Fatalf("evidence that is not genuine: %v, %v", saw, err)
	}
	if err := ask(first, false); err != nil || len(saw) != 2 || saw[0] != 7 || saw[1] != 99 {
		t.Fatalf("%v, %v", saw, err)
	}
	second := h.boot(composeText, h.seed)
	if err := ask(second, false); err == nil || len(saw) != 4 {
		t.Errorf("a boot that is refused: %v, %v", saw, err)
	}
}
