package admission

import (
	"testing"

	"cadre.dev/core/policy"
	"cadre.dev/store"
)

// TestATT15_ATT20_ABootIsAtThePairThatItProved: a change of the OS image alone makes a Revision
// with the same compose hash. During the rollout both Revisions are allowed. The image that a Boot
// proves decides its Revision, in any order of the boots.
func TestATT15_ATT20_ABootIsAtThePairThatItProved(t *testing.T) {
	const target, otherImage = "22222222222222222222222222222222", "dstack-0.5.12"
	h := newHarness(t)
	h.cfg.Images.Images = h.cloud.Images(osImage, otherImage)
	h.service = New(h.cfg)
	h.narrow(func(sp *policy.SlotPolicy) {
		next := sp.Allowed[0]
		next.Revision, next.OSImage = target, otherImage
		sp.Allowed = append(sp.Allowed, next)
	})
	at := func(what, want string) {
		t.Helper()
		if got := h.admission(); got.Revision != want {
			t.Errorf("%s is recorded at revision %s, want %s", what, got.Revision, want)
		}
	}

	old := h.boot(composeText, h.seed)
	old.mustAdmit()
	at("a boot of the old image", revision)
	old.mustAdmit()
	at("the same boot once more", revision)

	h.endLease()
	h.image = otherImage
	moved := h.boot(composeText, h.seed)
	moved.mustAdmit()
	at("a boot of the new image", target)

	// The record of the previous Boot does not count against the new proof.
	record := h.admission()
	record.Revision = revision
	h.write(store.AdmissionKey("pg-0"), record)
	moved.mustAdmit()
	at("a renewing boot of the new image", target)

	h.endLease()
	h.image = ""
	back := h.boot(composeText, h.seed)
	back.mustAdmit()
	at("a boot that went back to the old image", revision)

	// The rollout of the Slot is complete: the old pair is not allowed any more.
	h.narrow(func(sp *policy.SlotPolicy) { sp.Allowed = sp.Allowed[1:] })
	_, err := back.admit()
	h.wantRefusal(err, policy.CodeOSImageForbidden, policy.CodeOSImageForbidden)
	h.endLease()
	h.image = otherImage
	h.boot(composeText, h.seed).mustAdmit()
	at("a boot of the new image, the only one allowed", target)
}

// When Revisions have equal measurements, a Boot that attests again stays at its Revision. A
// refresh step marks the new Revision and so moves the Boot.
func TestABootBecomesTheRevisionThatItsStepRefreshesItTo(t *testing.T) {
	const target = "22222222222222222222222222222222"
	h := newHarness(t)
	boot := h.boot(composeText, h.seed)
	boot.mustAdmit()
	h.narrow(func(sp *policy.SlotPolicy) {
		next := sp.Allowed[0]
		next.Revision = target
		sp.Allowed = append(sp.Allowed, next)
	})
	boot.mustAdmit()
	if got := h.admission(); got.Revision != revision {
		t.Errorf("it became revision %s by attesting again", got.Revision)
	}
	h.narrow(func(sp *policy.SlotPolicy) { sp.Allowed[1].Refresh = true })
	before := h.admission()
	boot.mustAdmit()
	if got := h.admission(); got.Revision != target || got.BootID != before.BootID || got.Generation != before.Generation {
		t.Errorf("it is recorded as boot %s, generation %d at %s, want %s, %d at %s", got.BootID, got.Generation, got.Revision, before.BootID, before.Generation, target)
	}
	// Another refresh step moves it back.
	h.narrow(func(sp *policy.SlotPolicy) {
		back := sp.Allowed[0]
		back.Refresh = true
		sp.Allowed = []policy.AllowedRevision{sp.Allowed[1], back}
	})
	boot.mustAdmit()
	if got := h.admission(); got.Revision != revision {
		t.Errorf("it stayed at %s", got.Revision)
	}
}
