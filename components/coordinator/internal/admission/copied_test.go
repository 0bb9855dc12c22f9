package admission

import (
	"bytes"
	"testing"

	"cadre.dev/core/policy"
)

// TestIDN06_CopiesOfAHostAreNeverAdmitted: there are no tickets, and a binding is no secret. A copy
// of a binding or of an exchange is useless without a matching quote, and an attempt with it uses
// nothing up.
func TestIDN06_CopiesOfAHostAreNeverAdmitted(t *testing.T) {
	h := newHarness(t)
	bound, thief := h.boot(composeText, h.seed), h.boot(composeText, bytes.Repeat([]byte{0x77}, len(h.seed)))
	if thief.info.InstanceID == bound.info.InstanceID {
		t.Fatal("both are one instance")
	}
	thief.info.InstanceID = bound.info.InstanceID
	challenge, err := thief.challenge()
	if err != nil {
		t.Fatal(err)
	}
	_, err = thief.contact.Admit(t.Context(), thief.request(challenge, nil))
	h.wantRefusal(err, policy.CodeStatementMismatch, policy.CodeStatementMismatch)

	if challenge, err = bound.challenge(); err != nil {
		t.Fatal(err)
	}
	copied := bound.request(challenge, nil)
	_, err = thief.contact.Admit(t.Context(), copied)
	h.wantRefusal(err, policy.CodeNonceInvalid, "")
	if _, err := bound.contact.Admit(t.Context(), copied); err != nil {
		t.Errorf("the bound instance itself: %v", err)
	}
}
