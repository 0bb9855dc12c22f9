package coordinator

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cadre.dev/attest"
	"cadre.dev/attest/attestsim"
	"cadre.dev/attest/collateral"
	"cadre.dev/core/policy"
)

// evidenceWorld is a CVM, a collateral service and a coordinator with both, across restarts. marks
// has the highest evaluations of all coordinators, as in KV.
type evidenceWorld struct {
	t     testing.TB
	cloud *attestsim.Cloud
	pccs  *attestsim.PCCS
	guest *attest.GuestClient
	ev    attest.Evidence
	trust attest.Trust
	state string
	now   time.Time
	marks *collateral.Memory
	c     *Coordinator
}

func newEvidenceWorld(t testing.TB) *evidenceWorld {
	t.Helper()
	cloud, err := attestsim.OpenCloud(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &evidenceWorld{t: t, cloud: cloud, state: t.TempDir(), now: time.Now(), marks: &collateral.Memory{}}
	w.pccs = cloud.NewPCCS(func() time.Time { return w.now })
	service := httptest.NewServer(w.pccs)
	t.Cleanup(service.Close)
	w.trust = attest.Trust{RootsPEM: string(cloud.RootPEM()), AllowSimulated: true}
	w.trust.Collateral.PCCSURL = service.URL
	guest, err := cloud.Boot(attestsim.BootConfig{AppID: strings.Repeat("d", 40), AppCompose: []byte(`{"runner":"docker-compose","docker_compose_file":"services: {}"}`), InstanceIDSeed: make([]byte, 20), OSImage: "dstack-0.5.11"})
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: guest.Handler(), ReadHeaderTimeout: time.Second}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	w.guest = attest.NewGuestClient(socket)
	t.Cleanup(func() { w.guest.Close(); _ = server.Close(); <-done })
	if w.ev, err = w.guest.GetQuote(t.Context(), make([]byte, 64)); err != nil {
		t.Fatal(err)
	}
	w.restart()
	return w
}

// restart starts the next process on the same disk.
func (w *evidenceWorld) restart() {
	w.t.Helper()
	w.c = &Coordinator{
		cfg:  Config{Trust: w.trust, StateDir: w.state},
		deps: Deps{Guest: w.guest, Now: func() time.Time { return w.now }}, log: slog.New(slog.DiscardHandler),
	}
	if err := errors.Join(w.c.assembleQuoter(), w.c.assembleVerifier(w.marks)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *evidenceWorld) want(what string, want policy.Code) {
	w.t.Helper()
	_, err := w.c.verifier.Verify(context.Background(), w.ev, [64]byte{})
	var got policy.Code
	if refused, ok := errors.AsType[*attest.Error](err); ok {
		got = refused.Code
	}
	if got != want || want == "" && err != nil {
		w.t.Errorf("%s: %v, want %q", what, err, want)
	}
}

// TestATT06_ARestartWithoutTheCollateralServiceAdmits: the collateral of a minute ago is still
// there, and the judgement is the same.
func TestATT06_ARestartWithoutTheCollateralServiceAdmits(t *testing.T) {
	w := newEvidenceWorld(t)
	w.pccs.Set(attestsim.Posture{Down: true})
	w.want("nothing was ever fetched", policy.CodeCollateralUnavailable)
	w.pccs.Set(attestsim.Posture{})
	w.restart()
	w.want("the service is up", "")
	w.pccs.Set(attestsim.Posture{Down: true})
	w.restart()
	w.want("restarted without the service", "")
	own, err := w.c.quoter.GetQuote(t.Context(), make([]byte, 64))
	if err != nil || len(own.Collateral) == 0 {
		t.Errorf("own evidence has %d bytes of collateral, %v", len(own.Collateral), err)
	}
	w.state = t.TempDir()
	w.restart()
	w.want("another disk", policy.CodeCollateralUnavailable)
}

// TestATT05_KeptCollateralIsJudgedLikeFetched: the disk decides nothing.
func TestATT05_KeptCollateralIsJudgedLikeFetched(t *testing.T) {
	day := 24 * time.Hour
	for name, c := range map[string]struct {
		before func(w *evidenceWorld)
		want   policy.Code
	}{
		"newer was seen elsewhere": {func(w *evidenceWorld) {
			if err := w.marks.Raise(t.Context(), policy.CollateralWatermark{FMSPC: attestsim.FMSPC(), TCBEvaluation: 18}); err != nil {
				t.Fatal(err)
			}
		}, policy.CodeCollateralRollback},
		"older than allowed":   {func(w *evidenceWorld) { w.now = w.now.Add(8 * day) }, policy.CodeCollateralExpired},
		"the clock went back":  {func(w *evidenceWorld) { w.now = w.now.Add(-2 * day) }, policy.CodeClockUntrusted},
		"its dates are over":   {func(w *evidenceWorld) { w.now = w.now.Add(31 * day) }, policy.CodeCollateralExpired},
		"another root is true": {func(w *evidenceWorld) { w.trust.RootsPEM = "" }, "QUOTE_INVALID"},
		"nothing happened":     {func(*evidenceWorld) {}, ""},
	} {
		w := newEvidenceWorld(t)
		w.trust.Collateral.MaxAge = "168h"
		w.want(name+": before", "")
		w.pccs.Set(attestsim.Posture{Down: true})
		c.before(w)
		w.restart()
		w.want(name, c.want)
	}
}

// TestATT05_RefusedCollateralIsNotKept: a replayed older evaluation does not reach the disk.
func TestATT05_RefusedCollateralIsNotKept(t *testing.T) {
	w := newEvidenceWorld(t)
	w.pccs.Set(attestsim.Posture{Evaluation: 18})
	w.want("newer", "")
	w.pccs.Set(attestsim.Posture{Evaluation: 17})
	w.restart()
	w.want("replayed", policy.CodeCollateralRollback)
	// Our own evidence is sent with the available collateral: the other side judges it.
	if _, err := w.c.quoter.GetQuote(t.Context(), make([]byte, 64)); err != nil {
		t.Fatal(err)
	}
	w.pccs.Set(attestsim.Posture{Down: true})
	w.restart()
	w.want("restarted without the service", "")
}

// TestATT05_AnEvaluationThatAnotherCoordinatorSawIsFetched: on the day of a new evaluation the
// coordinators fetch at different hours. A coordinator with older documents fetches at its next
// judgement, also for its own evidence, and rejects no machine until then.
func TestATT05_AnEvaluationThatAnotherCoordinatorSawIsFetched(t *testing.T) {
	w := newEvidenceWorld(t)
	w.want("before the day", "")
	w.now = w.now.Add(time.Hour)
	w.pccs.Set(attestsim.Posture{Evaluation: 18})
	mark, err := w.marks.Get(t.Context(), attestsim.FMSPC())
	if err != nil {
		t.Fatal(err)
	}
	mark.TCBEvaluation, mark.QEEvaluation = 18, 18
	if err := w.marks.Raise(t.Context(), mark); err != nil {
		t.Fatal(err)
	}
	w.want("another coordinator saw the newer one", "")
	own, err := w.c.quoter.GetQuote(t.Context(), make([]byte, 64))
	if err != nil || !strings.Contains(string(own.Collateral), `tcbEvaluationDataNumber\":18`) {
		t.Errorf("own evidence goes with older collateral: %v, %.300s", err, own.Collateral)
	}
}

func TestATT27_TheSecondVerifierIsTheTrustFilesOne(t *testing.T) {
	w := newEvidenceWorld(t)
	if w.c.second != nil {
		t.Error("a root that the trust file does not name is accepted")
	}
	w.trust.DstackVerifier.URL = "http://127.0.0.1:1"
	w.restart()
	if w.c.second == nil {
		t.Fatal("there is none")
	}
	_, err := w.c.second.Verify(t.Context(), w.ev, [64]byte{})
	if refused, ok := errors.AsType[*attest.Error](err); !ok || refused.Code != policy.CodeOSImageForbidden {
		t.Errorf("asked about an image that the trust file does not name: %v", err)
	}
}
