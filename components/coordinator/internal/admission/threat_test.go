package admission

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"

	"cadre.dev/attest/statement"
	"cadre.dev/core/policy"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// TestATT12_ARelayedProofIsRefused: an attacker relays our challenge to an honest CVM, and that
// CVM's proof to us. The quote commits to the honest Boot's key and to its connection. A change on
// the way cannot alter that.
func TestATT12_ARelayedProofIsRefused(t *testing.T) {
	h := newHarness(t)
	honest, attacker := h.boot(composeText, h.seed), h.boot(composeText, h.seed)
	for name, c := range map[string]struct {
		change func(*statement.Agent)
		want   policy.Code
	}{
		"verbatim":                       {nil, codeContext},
		"with the attacker's key":        {func(s *statement.Agent) { s.BootPublicKey = attacker.spki }, codeChannel},
		"with the attacker's connection": {func(s *statement.Agent) { s.Exporter = attacker.channel }, codeContext},
	} {
		t.Run(name, func(t *testing.T) {
			h.forget()
			attacker.connect()
			challenge, err := attacker.challenge()
			if err != nil {
				t.Fatal(err)
			}
			// The honest CVM quotes an exchange that it takes for its own.
			req := honest.request(challenge, c.change)
			_, err = attacker.contact.Admit(t.Context(), req)
			h.wantRefusal(err, codeRejected, c.want)
		})
	}
	t.Run("the statement rewritten after the quote", func(t *testing.T) {
		h.forget()
		attacker.connect()
		challenge, err := attacker.challenge()
		if err != nil {
			t.Fatal(err)
		}
		req, own := honest.request(challenge, nil), attacker.request(challenge, nil)
		req.Statement = own.GetStatement()
		_, err = attacker.contact.Admit(t.Context(), req)
		h.wantRefusal(err, codeRejected, "REPORT_DATA_MISMATCH")
	})
	if _, _, err := store.Read[policy.Admission](t.Context(), h.store, store.AdmissionKey("pg-0")); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a boot was admitted: %v", err)
	}
}

// forget lets each case of a test record its refusal.
func (h *harness) forget() {
	h.service.mu.Lock()
	defer h.service.mu.Unlock()
	clear(h.service.noted)
}

// One case for each field of the statement that contradicts the evidence.
func TestATT23_AStatementThatContradictsTheEvidenceIsRefused(t *testing.T) {
	s := newSmall(t, 1, 2, "demo")
	for name, c := range map[string]struct {
		change func(*statement.Agent)
		want   policy.Code
	}{
		"cluster_id":   {func(s *statement.Agent) { s.ClusterID = strings.Repeat("ab", 16) }, codeRejected},
		"cluster":      {func(s *statement.Agent) { s.Cluster = "other" }, codeRejected},
		"group":        {func(s *statement.Agent) { s.Group = "web" }, codeRejected},
		"slot":         {func(s *statement.Agent) { s.Slot = "pg-1" }, codeRejected},
		"app":          {func(s *statement.Agent) { s.AppID = coordinatorApp }, codeUnknown},
		"instance":     {func(s *statement.Agent) { s.InstanceID = instanceOf(1) }, codeNonce},
		"compose hash": {func(s *statement.Agent) { s.ComposeHash = strings.Repeat("e", 64) }, "STATEMENT_MISMATCH"},
		"key":          {func(s *statement.Agent) { s.BootPublicKey = bytes.Repeat([]byte{1}, 91) }, codeRejected},
		"nonce":        {func(s *statement.Agent) { s.Nonce = bytes.Repeat([]byte{1}, nonceSize) }, codeNonce},
		"exporter":     {func(s *statement.Agent) { s.Exporter = bytes.Repeat([]byte{1}, 32) }, codeRejected},
	} {
		t.Run(name, func(t *testing.T) {
			b := s.newcomer(0, 0)
			challenge, err := b.challenge(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := b.Admit(t.Context(), b.request(challenge, c.change)); code(err) != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	if a := s.admission(0); a.BootID != "" {
		t.Errorf("admitted: %+v", a)
	}
}

// Other versions of the statement are refused: there is no fallback.
func TestATT26_OtherVersionsOfTheStatementAreRefused(t *testing.T) {
	s := newSmall(t, 1, 1, "demo")
	for version := range byte(5) {
		b := s.newcomer(0, 0)
		c, err := b.challenge(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := statement.DecodeBatch(c.GetCoordinatorStatement()); err != nil {
			t.Fatalf("the coordinator's own statement: %v", err)
		}
		req := b.request(c, nil)
		req.Statement[1] = version
		_, err = b.Admit(t.Context(), req)
		if want := policy.Code("UNSUPPORTED_VERSION"); version != statement.Version && code(err) != want {
			t.Errorf("version %d: %v", version, err)
		}
	}
}

// The leader withdraws the Revision between the appraisal and the commit. The attempt writes
// nothing, and the next try gets the reason.
func TestATT31_CTL07_ThePolicyChangesBeforeTheCommit(t *testing.T) {
	s := newSmall(t, 1, 1, "demo")
	b := s.newcomer(0, 0)
	moved := false
	s.store.OnCommit(func(ops []store.Op) storetest.Fault {
		for _, op := range ops {
			if strings.HasPrefix(op.Key, store.NoncesPrefix) && !moved {
				moved = true
				s.setPolicy(0, instanceOf(0), "22222222222222222222222222222222")
			}
		}
		return storetest.None
	})
	if err := b.admit(t.Context()); code(err) != codeUnreadable {
		t.Errorf("the policy moved under it: %v", err)
	}
	if a, lease := s.admission(0), s.lease(0); a.BootID != "" || lease.Leased() {
		t.Errorf("admission %+v, lease %+v", a, lease)
	}
	if nonces, _, err := s.store.List(t.Context(), store.NoncesPrefix); err != nil || len(nonces) != 0 {
		t.Errorf("%d nonces spent by a transaction that failed, %v", len(nonces), err)
	}
	if err := b.again(s.services[0]).admit(t.Context()); code(err) != policy.CodeRevisionNotAllowed {
		t.Errorf("the next try: %v", err)
	}
	s.store.OnCommit(nil)
	s.setPolicy(0, instanceOf(0), revision)
	s.store.FailReads(errors.New("no leader"))
	if err := b.again(s.services[0]).admit(t.Context()); code(err) != codeUnreadable {
		t.Errorf("an unreadable policy: %v", err)
	}
	s.store.FailReads(nil)
	if err := b.again(s.services[0]).admit(t.Context()); err != nil {
		t.Errorf("once it is readable: %v", err)
	}
}

// Until the evidence is verified, every refusal about policy or state is the same, byte for byte.
func TestATT34_UnauthenticatedCallersLearnNothing(t *testing.T) {
	s := newSmall(t, 1, 2, "demo")
	answers := map[string][]string{}
	for name, spoil := range map[string]func(*newcomer, *admissionv1.ChallengeResponse) *admissionv1.AdmitRequest{
		"junk for a quote": func(b *newcomer, c *admissionv1.ChallengeResponse) *admissionv1.AdmitRequest {
			req := b.request(c, nil)
			req.Evidence.Quote = []byte("junk")
			return req
		},
		"quote for something else": func(b *newcomer, c *admissionv1.ChallengeResponse) *admissionv1.AdmitRequest {
			req := b.request(c, func(s *statement.Agent) { s.ComposeHash = strings.Repeat("9", 64) })
			req.Statement = b.request(c, nil).GetStatement()
			return req
		},
		"another slot": func(b *newcomer, c *admissionv1.ChallengeResponse) *admissionv1.AdmitRequest {
			return b.request(c, func(s *statement.Agent) { s.Slot = "pg-1" })
		},
		"a slot that is not": func(b *newcomer, c *admissionv1.ChallengeResponse) *admissionv1.AdmitRequest {
			return b.request(c, func(s *statement.Agent) { s.Slot = "pg-99" })
		},
		"another cluster": func(b *newcomer, c *admissionv1.ChallengeResponse) *admissionv1.AdmitRequest {
			return b.request(c, func(s *statement.Agent) { s.Cluster = "prod" })
		},
		"another connection": func(b *newcomer, c *admissionv1.ChallengeResponse) *admissionv1.AdmitRequest {
			return b.request(c, func(s *statement.Agent) { s.Exporter = bytes.Repeat([]byte{1}, 32) })
		},
	} {
		b := s.newcomer(0, 0)
		c, err := b.challenge(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = b.Admit(t.Context(), spoil(b, c))
		answer := fmt.Sprintf("%v %q %v", status.Code(err), status.Convert(err).Message(), status.Convert(err).Details())
		answers[answer] = append(answers[answer], name)
	}
	if len(answers) != 1 {
		t.Errorf("the answers differ: %v", answers)
	}
	for answer := range answers {
		if !strings.Contains(answer, string(codeRejected)) {
			t.Errorf("answer %s", answer)
		}
	}
	// A caller with another key does not learn which Boot holds the Slot.
	if err := s.newcomer(0, 0).admit(t.Context()); err != nil {
		t.Fatal(err)
	}
	status, err := s.newcomer(0, 0).AdmissionStatus(t.Context(), &admissionv1.AdmissionStatusRequest{Group: "pg", Slot: "pg-0"})
	free, err2 := s.newcomer(0, 0).AdmissionStatus(t.Context(), &admissionv1.AdmissionStatusRequest{Group: "pg", Slot: "pg-1"})
	none, err3 := s.newcomer(0, 0).AdmissionStatus(t.Context(), &admissionv1.AdmissionStatusRequest{Group: "x", Slot: "../../etc"})
	if errors.Join(err, err2, err3) != nil || status.String() != free.String() || status.String() != none.String() || status.GetHolds() {
		t.Errorf("status for an unknown key: %v, %v, %v (%v)", status, free, none, errors.Join(err, err2, err3))
	}
}

// The CVM runs approved code with genuine evidence, but no Operation created it. The CVM's instance
// is unknown, so the CVM gets no nonce.
func TestIDN05_ACVMWithoutAnOperationIsNeverAdmitted(t *testing.T) {
	s := newSmall(t, 1, 1, "demo")
	extra := s.newcomer(0, 0)
	extra.instance = strings.Repeat("e", 40)
	if err := extra.admit(t.Context()); code(err) != codeUnknown {
		t.Errorf("challenge: %v", err)
	}
	// The CVM uses a challenge for the ordered instance.
	ordered := s.newcomer(0, 0)
	c, err := ordered.challenge(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ordered.Admit(t.Context(), ordered.request(c, func(s *statement.Agent) { s.InstanceID = extra.instance })); code(err) != codeUnknown {
		t.Errorf("admit: %v", err)
	}
	// The quote proves the real instance, even if the statement names another one.
	req := ordered.request(c, nil)
	req.Evidence.Quote = bytes.Replace(req.Evidence.Quote, []byte(ordered.instance), []byte(extra.instance), 1)
	if _, err := ordered.Admit(t.Context(), req); code(err) != policy.CodeStatementMismatch {
		t.Errorf("stated as the ordered one: %v", err)
	}
	if a := s.admission(0); a.BootID != "" || s.issued.Load() != 0 {
		t.Errorf("admission %+v, %d tokens issued", a, s.issued.Load())
	}
}

// Two clusters with the same app, keys and names, whose coordinators started on empty disks.
func TestGEN02_IDN08_MaterialOfAnotherClusterIDIsWorthless(t *testing.T) {
	const first, second = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"
	a, b := newSmallOf(t, 1, 1, "demo", first), newSmallOf(t, 1, 1, "demo", second)
	boot := a.newcomer(0, 0)
	c, err := boot.challenge(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	there := &newcomer{slot: 0, instance: boot.instance, bootID: boot.bootID, contact: &contact{Service: b.services[0], bootKey: boot.bootKey, channel: boot.channel}}
	if _, err := there.Admit(t.Context(), boot.request(c, nil)); code(err) != codeNonce {
		t.Errorf("a nonce of the other cluster ID: %v", err)
	}
	if got := b.admission(0); got.BootID != "" {
		t.Errorf("admitted: %+v", got)
	}
	c2, err := there.challenge(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ours, err := statement.DecodeBatch(c.GetCoordinatorStatement())
	theirs, err2 := statement.DecodeBatch(c2.GetCoordinatorStatement())
	if err != nil || err2 != nil || ours.ClusterID != first || theirs.ClusterID != second || bytes.Equal(ours.CABundleSHA256, theirs.CABundleSHA256) {
		t.Errorf("the coordinators' statements have the same cluster ID: %+v, %+v", ours, theirs)
	}
	if _, err := there.Admit(t.Context(), there.request(c2, func(s *statement.Agent) { s.ClusterID = first })); code(err) != codeRejected {
		t.Errorf("a statement for the other cluster ID: %v", err)
	}
	if got := b.admission(0); got.BootID != "" {
		t.Errorf("admitted: %+v", got)
	}
}

// Two clusters with the same code, hardware and names.
func TestIDN08_MaterialOfOneClusterIsWorthlessInAnother(t *testing.T) {
	a, b := newSmall(t, 1, 1, "a"), newSmall(t, 1, 1, "b")
	boot := a.newcomer(0, 0)
	c, err := boot.challenge(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	there := &newcomer{slot: 0, instance: boot.instance, bootID: boot.bootID, contact: &contact{Service: b.services[0], bootKey: boot.bootKey, channel: boot.channel}}
	if _, err := there.Admit(t.Context(), boot.request(c, nil)); code(err) != codeNonce {
		t.Errorf("a nonce of the other cluster: %v", err)
	}
	c2, err := there.challenge(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = there.Admit(t.Context(), there.request(c2, func(s *statement.Agent) { s.Cluster = "a" }))
	if code(err) != codeRejected {
		t.Errorf("a statement for the other cluster: %v", err)
	}
	ours, err := statement.DecodeBatch(c.GetCoordinatorStatement())
	theirs, err2 := statement.DecodeBatch(c2.GetCoordinatorStatement())
	if err != nil || err2 != nil || ours.Cluster != "a" || theirs.Cluster != "b" || bytes.Equal(ours.CABundleSHA256, theirs.CABundleSHA256) {
		t.Errorf("the coordinators' statements have the same cluster: %+v, %+v", ours, theirs)
	}
	if got := b.admission(0); got.BootID != "" {
		t.Errorf("admitted: %+v", got)
	}
}

// Each part is accepted at its limit, and rejected one byte beyond it.
func TestINP01_EveryPartHasItsBound(t *testing.T) {
	s := newSmall(t, 1, 1, "demo")
	for name, c := range map[string]struct {
		limit int
		grow  func(*admissionv1.AdmitRequest, int)
	}{
		"statement":   {maxStatement, func(r *admissionv1.AdmitRequest, n int) { r.Statement = make([]byte, n) }},
		"quote":       {maxQuote, func(r *admissionv1.AdmitRequest, n int) { r.Evidence.Quote = make([]byte, n) }},
		"event log":   {maxEventLog, func(r *admissionv1.AdmitRequest, n int) { r.Evidence.EventLog = strings.Repeat("x", n) }},
		"app compose": {maxCompose, func(r *admissionv1.AdmitRequest, n int) { r.Evidence.AppCompose = make([]byte, n) }},
	} {
		t.Run(name, func(t *testing.T) {
			b := s.newcomer(0, 0)
			challenge, err := b.challenge(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range []int{c.limit - 1, c.limit, c.limit + 1, 4 * c.limit} {
				req := b.request(challenge, nil)
				c.grow(req, n)
				_, err := b.Admit(t.Context(), req)
				if tooLarge := code(err) == codeTooLarge; tooLarge != (n > c.limit) {
					t.Errorf("%d bytes: %v", n, err)
				}
			}
		})
	}
	if maxRequest > 1<<20 {
		t.Errorf("a whole request may have %d bytes", maxRequest)
	}
}

// gRPC decompresses only with a registered compressor, and this program registers none.
func TestINP02_NoContentEncodingIsAccepted(t *testing.T) {
	for _, name := range []string{"gzip", "deflate", "zstd", "snappy", "br"} {
		if encoding.GetCompressor(name) != nil {
			t.Errorf("%s is read", name)
		}
	}
}
