package attest

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"cadre.dev/core/policy"
)

type judgeFunc func(Evidence, [64]byte) (policy.Claims, error)

func (f judgeFunc) Verify(_ context.Context, ev Evidence, data [64]byte) (policy.Claims, error) {
	return f(ev, data)
}

func TestATT27_VerifiersMustAgreeOnEveryClaim(t *testing.T) {
	good := policy.Claims{
		AppID: "a", InstanceID: "i", ComposeHash: "c", KeyProviderName: "kms", KeyProviderID: "k", OSImageHash: "o", MRTD: "m", RTMR0: "0", RTMR1: "1", RTMR2: "2",
		TCB: policy.TCB{Status: "UpToDate", Advisories: []string{"x"}, FMSPC: "f"},
	}
	for name, c := range map[string]struct {
		second func(*policy.Claims)
		err    error
		want   policy.Code
	}{
		"the same":             {func(*policy.Claims) {}, nil, ""},
		"without registers":    {func(c *policy.Claims) { c.MRTD, c.RTMR0, c.RTMR1, c.RTMR2, c.TCB.FMSPC = "", "", "", "", "" }, nil, ""},
		"another app":          {func(c *policy.Claims) { c.AppID = "b" }, nil, policy.CodeVerifierInconsistent},
		"no app":               {func(c *policy.Claims) { c.AppID = "" }, nil, policy.CodeVerifierInconsistent},
		"another instance":     {func(c *policy.Claims) { c.InstanceID = "b" }, nil, policy.CodeVerifierInconsistent},
		"another compose hash": {func(c *policy.Claims) { c.ComposeHash = "b" }, nil, policy.CodeVerifierInconsistent},
		"another provider":     {func(c *policy.Claims) { c.KeyProviderName = "b" }, nil, policy.CodeVerifierInconsistent},
		"another provider id":  {func(c *policy.Claims) { c.KeyProviderID = "b" }, nil, policy.CodeVerifierInconsistent},
		"another image":        {func(c *policy.Claims) { c.OSImageHash = "b" }, nil, policy.CodeVerifierInconsistent},
		"another register":     {func(c *policy.Claims) { c.RTMR1 = "b" }, nil, policy.CodeVerifierInconsistent},
		"another status":       {func(c *policy.Claims) { c.TCB.Status = "OutOfDate" }, nil, policy.CodeVerifierInconsistent},
		"no status":            {func(c *policy.Claims) { c.TCB.Status = "" }, nil, policy.CodeVerifierInconsistent},
		"another family":       {func(c *policy.Claims) { c.TCB.FMSPC = "b" }, nil, policy.CodeVerifierInconsistent},
		"more advisories":      {func(c *policy.Claims) { c.TCB.Advisories = []string{"x", "y"} }, nil, policy.CodeVerifierInconsistent},
		"it refuses":           {nil, refuse(CodeQuoteInvalid, "x"), policy.CodeVerifierInconsistent},
		"it is not there":      {nil, refuse(policy.CodeVerifierUnavailable, "x"), policy.CodeVerifierUnavailable},
		"it fails":             {nil, errors.New("x"), policy.CodeVerifierUnavailable},
	} {
		second := judgeFunc(func(Evidence, [64]byte) (policy.Claims, error) {
			claims := good
			if c.second != nil {
				c.second(&claims)
			}
			return claims, c.err
		})
		wantCode(t, name, Confirm(context.Background(), second, Evidence{}, [64]byte{}, good), c.want)
	}
}

// answerFor is a service's answer about the fake's evidence.
func answerFor(f *fake, claims policy.Claims) []byte {
	provider := fmt.Sprintf(`{"name":%q,"id":%q}`, claims.KeyProviderName, claims.KeyProviderID)
	text, _ := json.Marshal(map[string]any{"is_valid": true, "reason": nil, "details": map[string]any{
		"quote_verified": true, "event_log_verified": true, "os_image_hash_verified": true, "report_data": hex.EncodeToString(f.report.ReportData[:]),
		"tcb_status": claims.TCB.Status, "advisory_ids": []string{},
		"app_info": map[string]any{
			"app_id": claims.AppID, "compose_hash": claims.ComposeHash, "instance_id": claims.InstanceID, "os_image_hash": claims.OSImageHash,
			"device_id": "00", "mr_system": "00", "mr_aggregated": "00", "key_provider_info": hex.EncodeToString([]byte(provider)),
		},
	}})
	return text
}

func TestATT28_UnknownImagesAreNotAskedAbout(t *testing.T) {
	j := newJudge(t, nil)
	ev := j.evidence(t)
	ev.VMConfig = fmt.Sprintf(`{"spec_version":1,"os_image_hash":%q}`, strings.Repeat("05", 32))
	claims, err := j.v.Verify(context.Background(), ev, j.report.ReportData)
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write(answerFor(j.fake, claims))
	}))
	defer server.Close()
	images := map[string][]policy.Measurement{"x": {{MRTD: claims.MRTD, RTMR0: claims.RTMR0, RTMR1: claims.RTMR1, RTMR2: claims.RTMR2}}}
	service, err := NewDstackVerifier(server.URL, images)
	if err != nil {
		t.Fatal(err)
	}
	if err := Confirm(context.Background(), service, ev, j.report.ReportData, claims); err != nil || asked.Load() != 1 {
		t.Errorf("the known image: %v, asked %d times", err, asked.Load())
	}
	for i := range 1000 {
		other := ev
		other.VMConfig = fmt.Sprintf(`{"os_image_hash":"%064x"}`, i)
		_, err := service.Verify(context.Background(), other, j.report.ReportData)
		if codeOf(err) != policy.CodeOSImageForbidden {
			t.Fatalf("image %d: %v", i, err)
		}
	}
	for _, config := range []string{"", "{}", "null", `{"os_image_hash":""}`, `{"os_image_hash":1}`, strings.Repeat(" ", maxVMConfig+1)} {
		other := ev
		other.VMConfig = config
		err := Confirm(context.Background(), service, other, j.report.ReportData, claims)
		wantCode(t, fmt.Sprintf("vm_config %.20q", config), err, policy.CodeOSImageForbidden)
	}
	unknown := newJudge(t, nil)
	unknown.report.MRTD[0] = 1
	bad := unknown.evidence(t)
	bad.VMConfig = ev.VMConfig
	err = Confirm(context.Background(), service, bad, unknown.report.ReportData, claims)
	wantCode(t, "other registers", err, policy.CodeOSImageForbidden)
	if asked.Load() != 1 {
		t.Errorf("the service was asked %d times", asked.Load())
	}
}
