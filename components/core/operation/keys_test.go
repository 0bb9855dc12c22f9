package operation

import (
	"strings"
	"testing"
	"time"
)

// TestABootWithoutKeysHasACodeOfItsOwn: the texts are those of a guest whose dstack-kms refuses it, of
// a key service that refuses itself, and of errors that are no refusal.
func TestABootWithoutKeysHasACodeOfItsOwn(t *testing.T) {
	const chain = "Failed to get app keys from KMS: Failed to get app key: "
	for text, want := range map[string]string{
		chain + `Request failed with status=400 Bad Request, error={"error":"App not allowed: Boot denied: REVISION_NOT_ALLOWED: revision 12ab is revoked: leaked"}`:                                                "REVISION_NOT_ALLOWED: revision 12ab is revoked: leaked",
		"Failed to request app keys: " + chain + "Request failed with status=400 Bad Request, error={\n  \"error\": \"App not allowed: Boot denied: TCB status \\\"OutOfDate\\\" is not in allowedTcbStatuses\"\n}": `TCB status "OutOfDate" is not in allowedTcbStatuses`,
		chain + `error={"error":"App not allowed: Boot denied: cut o`:   "cut o",
		chain + "App not allowed: Boot denied: OS image is not allowed": "OS image is not allowed",
		chain + `Request failed with status=400 Bad Request, error={"error":"KMS self authorization failed: KMS is not allowed: measurement x is not in kms.mrAggregated"}`: "measurement x is not in kms.mrAggregated",
		chain + "App not allowed: error sending request for url (http://10.0.2.2:8001/bootAuth/app)":                                                                        "",
		chain + "Failed to send request: connection refused":                                                                                                                "",
		"Boot denied: by something else": "",
		"failed to start containers":     "",
		"":                               "",
	} {
		got, refused := KeysRefused(text)
		if got != want || refused != (want != "") {
			t.Errorf("%q: %q, %v", text, got, refused)
		}
		if text == "" {
			continue
		}
		now := time.Unix(1000, 0)
		op := Operation{ID: "x", Phase: Booting, Kind: Update}
		next, failed := op.bootError(Facts{Platform: &PlatformView{BootError: text}}, now)
		if !failed || next.Failure.Cause != CauseBootError || strings.HasPrefix(next.Reason, keysRefused) != refused || !strings.Contains(next.Reason, want) {
			t.Errorf("%q: %+v", text, next)
		}
	}
}

// No coordinator answered about the boot, as while all of them boot themselves: the step waits for
// another boot, until its deadline.
func TestABootWithoutADecisionIsAwaited(t *testing.T) {
	text := `Failed to get app keys from KMS: Failed to get app key: error={"error":"App not allowed: Boot denied: the coordinators did not decide: no coordinator answers"}`
	op := Operation{ID: "x", Phase: Booting, Kind: Update}
	if next, failed := op.bootError(Facts{Platform: &PlatformView{BootError: text}}, time.Unix(1000, 0)); failed {
		t.Errorf("the step ended: %s", next.Reason)
	}
}

// A node that does not answer about the CVM of a deletion proves nothing: the CVM may be there.
func TestADeletionOnASilentNodeIsNotDone(t *testing.T) {
	op := Operation{ID: "x", Slot: "web-1", Phase: Acting, Kind: Delete, CVM: CVM{VMUUID: "vm"}}
	if next, done := op.alreadySo(Facts{}, time.Unix(1000, 0)); done {
		t.Errorf("the deletion is %s: %s", next.Phase, next.Reason)
	}
	if next, done := op.alreadySo(Facts{PlatformKnown: true}, time.Unix(1000, 0)); !done {
		t.Errorf("the deletion of an unlisted CVM is %s", next.Phase)
	}
}
